"""Thumbnails on the process pool: cpu=True takes a task off the event loop, and its cores too.

pip install 'penstock[cpu]'
python examples/thumbnails.py [folder]
"""

import asyncio
import struct
import sys
import tempfile
import zlib
from pathlib import Path

import penstock

app = penstock.App("memory://")

WIDTH = 320
THUMBNAIL_WIDTH = 32


@app.task(cpu=True, timeout_seconds=60)
def thumbnail(source: str, target: str) -> int:
    """Shrinks a PPM to a PNG; each pixel becomes the average of a square of them."""
    width, height, pixels = read_ppm(Path(source))
    step = width // THUMBNAIL_WIDTH
    rows = [
        b"".join(average(pixels, width, x, y, step) for x in range(0, width - step + 1, step))
        for y in range(0, height - step + 1, step)
    ]
    return Path(target).write_bytes(png(rows))


def average(pixels: bytes, width: int, left: int, top: int, step: int) -> bytes:
    square = [
        pixels[3 * (y * width + left) : 3 * (y * width + left + step)]
        for y in range(top, top + step)
    ]
    flat = b"".join(square)
    return bytes(sum(flat[colour::3]) // step**2 for colour in range(3))


def read_ppm(path: Path) -> tuple[int, int, bytes]:
    kind, width, height, _, pixels = path.read_bytes().split(maxsplit=4)
    assert kind == b"P6"
    return int(width), int(height), pixels


def write_ppm(path: Path, red: int) -> None:
    """A gradient, so that there is something to shrink."""
    pixels = bytes(v for y in range(WIDTH) for x in range(WIDTH) for v in (red, 64 + x % 192, 99))
    path.write_bytes(b"P6 %d %d 255\n" % (WIDTH, WIDTH) + pixels)


def png(rows: list[bytes]) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        check = zlib.crc32(kind + data)
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", check)

    header = struct.pack(">IIBBBBB", len(rows[0]) // 3, len(rows), 8, 2, 0, 0, 0)
    data = zlib.compress(b"".join(b"\0" + row for row in rows))
    parts = chunk(b"IHDR", header) + chunk(b"IDAT", data) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + parts


async def main(folder: Path) -> None:
    names = [f"image-{number}" for number in range(6)]
    for number, name in enumerate(names):
        write_ppm(folder / f"{name}.ppm", red=40 * number)
    async with app:
        await app.enqueue_many(
            thumbnail.job(str(folder / f"{name}.ppm"), str(folder / f"{name}.png"))
            for name in names
        )
        worker = penstock.Worker(app, penstock.WorkerOptions(burst=True, processes=2))
        await worker.run()
    print(f"{worker.counters.completed} thumbnails")


# A child process imports this file, and must not run it again.
if __name__ == "__main__":
    if len(sys.argv) > 1:
        asyncio.run(main(Path(sys.argv[1])))
    else:
        with tempfile.TemporaryDirectory() as temporary:
            asyncio.run(main(Path(temporary)))
