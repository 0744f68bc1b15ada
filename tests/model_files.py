"""Model files with a part replaced."""

import io
import json
import zipfile

import numpy as np


def spoil(path, name, value):
    """Replace an array of the model in a file, or another of its fields."""
    with zipfile.ZipFile(path) as archive:
        members = {member: archive.read(member) for member in archive.namelist()}
    if isinstance(value, np.ndarray):
        content = io.BytesIO()
        np.save(content, value)
        assert f"arrays/result.model.{name}.npy" in members
        members[f"arrays/result.model.{name}.npy"] = content.getvalue()
    else:
        document = json.loads(members["model.json"])
        place = document["result"]["fields"]["model"]["fields"]
        *way, last = name.split(".")
        for step in way:
            place = place[step]["fields"]
        assert last in place
        place[last] = value
        members["model.json"] = json.dumps(document).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for member, content in members.items():
            archive.writestr(member, content)
