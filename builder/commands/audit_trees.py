"""Where the trees of an audit come from: a lock with the store, a folder of wheels, an image."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from builder.commands.context import Context
from builder.core.audit.config import parse_config
from builder.core.audit.file import FileFacts
from builder.core.audit.identity import LOCK_FOLDER
from builder.core.audit.integrity import LARGEST_COMPARED
from builder.core.audit.layer import Image, Layer, stack
from builder.core.audit.tree import Kind, Tree, grow
from builder.core.lock import Lock, PlatformLock, WheelPin
from builder.core.manifest import Descriptor
from builder.edge import layer_files, wheel_files
from builder.edge.image_source import ImageSource, PlatformImage
from builder.edge.pool import Stop, each
from builder.edge.store import Store, verified
from builder.errors import BadInput, LockFileError, Outside

Place = tuple[int, str]
"""Layer (0 where there are none) and path."""
THREADS = 2
"""Wheels or layers read at once: unpacking and hashing leave the interpreter to others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grown:
    """A tree, and how to look into it again."""

    tree: Tree
    lock: Lock | None
    """The one that lies in the image."""
    read: Callable[[Collection[Place]], dict[Place, bytes]]
    """Gives the bytes of files, of those that are small enough."""


def lock_tree(context: Context, image: str, lock: Lock, platform: str) -> Grown:
    """Read the wheels that a lock names, from the store.

    Raises Outside when some are not there.
    """
    store = Store(context.places.store)
    pins = lock.platforms[platform].wheels
    absent = [pin.name for pin in pins if not store.has(pin.sha256, pin.size)]
    if absent:
        raise Outside(
            f"{len(absent)} locked wheels are not in the store: {', '.join(absent[:5])}",
            subject=str(store.root),
            action=f"run `nightlock fetch {image}` first",
        )
    paths = {pin.file: store.path(pin.sha256) for pin in pins}
    return _wheels(context, "lock", image, paths, {pin.file: pin.index for pin in pins})


def folder_tree(context: Context, folder: Path) -> Grown:
    """Read every wheel in a folder and below it.

    Raises BadInput when there is none, or two of one name.
    """
    if not folder.is_dir():
        raise BadInput(
            "there is no such folder", subject=str(folder), action="name a folder of wheels"
        )
    paths: dict[str, Path] = {}
    for path in sorted(folder.rglob("*.whl")):
        if path.name in paths:
            raise BadInput(
                f"{path.name} is there twice",
                subject=f"{paths[path.name]}, {path}",
                action="remove one of them",
            )
        paths[path.name] = path
    if not paths:
        raise BadInput("the folder has no wheels", subject=str(folder), action="name another one")
    return _wheels(context, "wheels", str(folder), paths, {})


def _wheels(
    context: Context,
    kind: Kind,
    subject: str,
    paths: Mapping[str, Path],
    indexes: Mapping[str, str],
) -> Grown:
    files: dict[str, FileFacts] = {}
    texts: dict[str, bytes] = {}
    # Large ones first: the last one then ends with the others.
    order = sorted(paths.items(), key=lambda item: (-item[1].stat().st_size, item[0]))
    total = sum(path.stat().st_size for _, path in order)
    with context.output.bar("audit", total) as bar:

        def read(
            item: tuple[str, Path], stop: Stop
        ) -> tuple[dict[str, FileFacts], dict[str, bytes]]:
            found = wheel_files.read_wheel(item[1], item[0], stop)
            bar.advance(item[1].stat().st_size)
            return found

        for some, kept in each(read, order, threads=THREADS):
            files |= some
            texts |= kept

    def again(wanted: Collection[Place]) -> dict[Place, bytes]:
        found: dict[Place, bytes] = {}
        for _, path in wanted:
            wheel, _, member = path.partition("/")
            some = wheel_files.read_members(paths[wheel], [member])
            found |= {(0, f"{wheel}/{name}"): data for name, data in some.items()}
        return found

    tree = grow(kind, subject, files, texts, indexes=indexes)
    return Grown(tree=tree, lock=None, read=again)


def image_tree(context: Context, source: ImageSource, one: PlatformImage) -> Grown:
    """Read one platform of an image layer by layer.

    Raises Refused when a layer is none, RegistryError, NetworkError, HashMismatch.
    """
    rows = list(enumerate(one.manifest.body.layers))
    order = sorted(rows, key=lambda row: -row[1].size)
    with context.output.bar("audit", sum(row.size for _, row in rows)) as bar:

        def read(
            row: tuple[int, Descriptor], stop: Stop
        ) -> tuple[int, tuple[Layer, dict[str, bytes]]]:
            number, layer = row

            def pieces() -> Iterator[bytes]:
                for piece in source.stream(layer.digest):
                    bar.advance(len(piece))
                    yield piece

            return number, layer_files.read_layer(pieces(), layer.digest, layer.size, stop)

        found = dict(each(read, order, threads=THREADS))
    layers = tuple(found[number][0] for number in range(len(rows)))
    files, origin, hidden = stack(layers)
    texts = {
        path: found[number][1][path] for path, number in origin.items() if path in found[number][1]
    }
    config = parse_config(one.config, source.name)
    image = Image(
        layers=layers,
        hidden=tuple(hidden),
        origin=origin,
        labels=config.labels,
        environment=config.environment,
        history=config.history,
        platform=one.platform or config.platform,
    )

    def again(wanted: Collection[Place]) -> dict[Place, bytes]:
        found: dict[Place, bytes] = {}
        for number in sorted({layer for layer, _ in wanted}):
            paths = frozenset(path for layer, path in wanted if layer == number)
            blob = layers[number].digest
            some = layer_files.read_some(source.stream(blob), blob, paths, LARGEST_COMPARED)
            found |= {(number, path): data for path, data in some.items()}
        return found

    tree = grow("image", source.name, files, texts, image=image)
    return Grown(tree=tree, lock=_lock_inside(tree), read=again)


def _lock_inside(tree: Tree) -> Lock | None:
    """Read the lock an image holds; None where it has none, or one that cannot be read."""
    inside = {
        path.removeprefix(LOCK_FOLDER): data
        for path, data in tree.texts.items()
        if path.startswith(LOCK_FOLDER)
    }
    with suppress(LockFileError):
        return Lock.parse(inside, tree.subject) if inside else None
    return None


def originals(
    context: Context, lock: PlatformLock | None, wanted: Sequence[tuple[str, str]]
) -> dict[tuple[str, str], bytes]:
    """Read files of wheels as they were published, where the store has those wheels.

    `wanted`: package and path below the site directory. Raises HashMismatch when the disk damaged
    such a wheel.
    """
    store = Store(context.places.store)
    found: dict[tuple[str, str], bytes] = {}
    pins: dict[str, WheelPin] = {pin.name: pin for pin in lock.wheels} if lock else {}
    for name in sorted({name for name, _ in wanted} & pins.keys()):
        pin = pins[name]
        if store.has(pin.sha256, pin.size):
            paths = [path for package, path in wanted if package == name]
            # What it is compared with has to be what the lock names.
            some = wheel_files.read_members(verified(store.path(pin.sha256), pin.file), paths)
            found |= {(name, path): data for path, data in some.items()}
    return found
