"""Tables and figures of the papers beside ours, run from a clone: ``python -m papers NAME``.

One module per source of figures; ``runner``, ``statistics``, ``pages``, ``data`` and ``models`` are
what they share. Only public names of ``ordinalgp`` are used. The records are in ``results/``.
"""
