"""Published tables beside ours: data on the papers' partitions, a grid that resumes, tables."""
