"""The same rows as the kernel planWholeBlocks, made with numpy. The other side of `moriarty bench kv`.

  blocks.py FORM ROUNDS < lists     FORM is 'repeated' or 'vectorised'

`lists` is one JSON document: localIds, remoteIds, localBases, remoteBases, stride. A block is as long as its stride on
both sides. Prints {"seconds": median of the rounds, "rows": how many, "sum": a check sum}.

'repeated' is what connectors do today: every layer makes its lists of offsets block by block, sorts and merges them
anew. 'vectorised' sorts and merges once and adds all bases in one step, into arrays made before; nothing is left to
Python.
"""

import json
import sys
import time

import numpy


def merge_layer(local_offsets, remote_offsets, sizes):
    """Sorts by local offset and joins what goes on on both sides."""
    order = numpy.argsort(local_offsets, kind="stable")
    local = local_offsets[order]
    remote = remote_offsets[order]
    size = sizes[order]
    breaks = (numpy.diff(local) != size[:-1]) | (numpy.diff(remote) != size[:-1])
    starts = [0, *(numpy.flatnonzero(breaks) + 1).tolist()]
    before = [0, *numpy.cumsum(size).tolist()]
    local, remote = local.tolist(), remote.tolist()
    rows = ([], [], [])
    for start, end in zip(starts, [*starts[1:], len(local)]):
        rows[0].append(local[start])
        rows[1].append(remote[start])
        rows[2].append(before[end] - before[start])
    return rows


def repeated(lists):
    stride = lists["stride"]
    locals_, remotes, sizes = [], [], []
    for local_base, remote_base in zip(lists["localBases"], lists["remoteBases"]):
        count = len(lists["localIds"])
        local = numpy.fromiter((local_base + block * stride for block in lists["localIds"]), numpy.int64, count)
        remote = numpy.fromiter((remote_base + block * stride for block in lists["remoteIds"]), numpy.int64, count)
        rows = merge_layer(local, remote, numpy.full(count, stride, numpy.int64))
        locals_ += rows[0]
        remotes += rows[1]
        sizes += rows[2]
    return locals_, remotes, sizes


def vectorised(local_ids, remote_ids, local_bases, remote_bases, stride, out):
    """Local ids are distinct, so that any sort of the packed pairs will do."""
    pairs = numpy.sort((local_ids.astype(numpy.uint64) << numpy.uint64(32)) | remote_ids)
    breaks = numpy.flatnonzero(numpy.diff(pairs) != numpy.uint64((1 << 32) + 1))
    starts = numpy.concatenate((numpy.zeros(1, numpy.int64), breaks + 1))
    lengths = numpy.diff(starts, append=len(pairs)) * stride
    first = pairs[starts]
    local = (first >> numpy.uint64(32)).astype(numpy.int64) * stride
    remote = (first & numpy.uint64(0xFFFFFFFF)).astype(numpy.int64) * stride
    layers, rows = len(local_bases), len(starts)
    columns = [column[: layers * rows].reshape(layers, rows) for column in out]
    numpy.add(local_bases[:, None], local[None, :], out=columns[0])
    numpy.add(remote_bases[:, None], remote[None, :], out=columns[1])
    columns[2][:] = lengths[None, :]
    return [column.ravel() for column in columns]


def main():
    form, rounds = sys.argv[1], int(sys.argv[2])
    lists = json.load(sys.stdin)
    if form == "vectorised":
        ids = [numpy.array(lists[name], numpy.uint32) for name in ("localIds", "remoteIds")]
        bases = [numpy.array(lists[name], numpy.int64) for name in ("localBases", "remoteBases")]
        out = [numpy.zeros(len(ids[0]) * len(bases[0]), numpy.int64) for _ in range(3)]

        def work():
            return vectorised(*ids, *bases, lists["stride"], out)
    else:

        def work():
            return repeated(lists)

    seconds = []
    calls = 20 if form == "vectorised" else 1
    rows = work()
    for _ in range(rounds):
        started = time.perf_counter()
        for _ in range(calls):
            rows = work()
        seconds.append((time.perf_counter() - started) / calls)
    total = sum(int(numpy.sum(numpy.asarray(column, dtype=numpy.int64) % 1000003)) for column in rows)
    print(json.dumps({"seconds": sorted(seconds)[len(seconds) // 2], "rows": len(rows[0]), "sum": total}))


main()
