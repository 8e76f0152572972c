"""Makes a plugin file from the library in the package: rewrites its note, build id and data.

Works on the bytes of the file: building a plugin needs neither a compiler nor a linker, and the plugin needs only what
the package's own libraries need, such as their glibc. The data is placed after the last segment's data, in its memory,
and has its own section, so that strip and similar tools keep it.
"""

import hashlib
import json
import struct
from dataclasses import dataclass

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SEGMENT = struct.Struct("<IIQQQQQQ")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_LOAD, _PROGBITS, _NOBITS, _WRITABLE, _ALLOCATED = 1, 1, 8, 1, 2


@dataclass
class _Section:
    name: str
    fields: list[int]  # name, type, flags, address, offset, size, link, info, alignment, entry size


class Library:
    def __init__(self, data: bytes) -> None:
        self._data = bytearray(data)
        header = _HEADER.unpack_from(data)
        self._header = list(header)
        if header[0][:6] != b"\x7fELF\x02\x01":
            raise ValueError("the package's library for plugins is not a 64-bit ELF file")
        self._segments = [list(_SEGMENT.unpack_from(data, header[5] + i * _SEGMENT.size)) for i in range(header[10])]
        fields = [list(_SECTION.unpack_from(data, header[6] + i * _SECTION.size)) for i in range(header[12])]
        names = fields[header[13]]
        texts = data[names[4] : names[4] + names[5]]
        self._sections = [_Section(texts[one[0] : texts.index(b"\0", one[0])].decode(), one) for one in fields]

    def _section(self, name: str) -> _Section:
        for one in self._sections:
            if one.name == name:
                return one
        raise ValueError(f"the package's library for plugins has no section {name}")

    def write_note(self, name: str, version: str, vendor: str, devices: str) -> None:
        """Writes the fields of OPDOCK_NOTE; the rest of the note stays."""
        fields = self._section(".note.opdock").fields
        begin = fields[4] + 20  # after three numbers and the owner's name of 8 bytes
        room = fields[5] - 20
        payload = json.loads(self._data[begin : begin + room].rstrip(b"\0"))
        payload |= {"id": name, "version": version, "vendor": vendor, "devices": devices}
        text = json.dumps(payload, separators=(",", ":")).encode()
        if len(text) >= room:
            raise ValueError("name, version and vendor are too long for the plugin's note")
        self._data[begin : begin + room - 1] = text.ljust(room - 1)

    def append(self, data: bytes) -> None:
        """Appends `data` to the last segment, and writes its location to the section .opdock.place."""
        segment = max((one for one in self._segments if one[0] == _LOAD), key=lambda one: one[3])
        begin = segment[3] + segment[6]  # after data without bytes in the file
        address = (begin + 15) // 16 * 16
        old_end = segment[3] + segment[5]
        kept = bytes(self._data[: segment[2] + segment[5]])
        moved = self._unallocated(segment[2] + segment[5])
        self._data = bytearray(kept + bytes(address - old_end) + data)
        for one in self._sections:
            if one.fields[1] == _NOBITS and one.fields[3] >= old_end:
                one.fields[1] = _PROGBITS  # its zeros are now in the file
                one.fields[4] = segment[2] + one.fields[3] - segment[3]
        segment[5] = segment[6] = address + len(data) - segment[3]
        flags, offset = _ALLOCATED | _WRITABLE, segment[2] + address - segment[3]
        section = _Section(".opdock.triton", [0, _PROGBITS, flags, address, offset, len(data), 0, 0, 16, 0])
        self._write_place(address, len(data))
        self._write_sections([*self._sections, section], moved)

    def _unallocated(self, end: int) -> list[tuple[_Section, bytes]]:
        """Returns sections that are not loaded, such as symbols, and that come after the segments."""
        return [
            (one, bytes(self._data[one.fields[4] : one.fields[4] + one.fields[5]]))
            for one in self._sections
            if not one.fields[2] & _ALLOCATED and one.fields[1] not in (0, _NOBITS) and one.fields[4] >= end
        ]

    def _write_place(self, address: int, size: int) -> None:
        place = self._section(".opdock.place").fields
        struct.pack_into("<QQ", self._data, place[4], address - place[3], size)

    def _write_sections(self, sections: list[_Section], moved: list[tuple[_Section, bytes]]) -> None:
        texts = bytearray(b"\0")
        for one in sections:
            one.fields[0] = len(texts) if one.name else 0
            texts += one.name.encode() + b"\0" if one.name else b""
        names = sections[self._header[13]]
        for one, data in moved:
            self._data += bytes(-len(self._data) % max(one.fields[8], 1))
            data = bytes(texts) if one is names else data
            one.fields[4], one.fields[5] = len(self._data), len(data)
            self._data += data
        self._data += bytes(-len(self._data) % 8)
        self._header[6], self._header[12] = len(self._data), len(sections)
        for one in sections:
            self._data += _SECTION.pack(*one.fields)
        _HEADER.pack_into(self._data, 0, *self._header)
        for i, segment in enumerate(self._segments):
            _SEGMENT.pack_into(self._data, self._header[5] + i * _SEGMENT.size, *segment)

    def finish(self) -> bytes:
        """Returns the file, with a build id of its contents."""
        for one in self._sections:
            if one.name == ".note.gnu.build-id":
                begin, size = one.fields[4] + 16, one.fields[5] - 16
                self._data[begin : begin + size] = bytes(size)
                digest = hashlib.sha256(self._data).digest()[:size]
                self._data[begin : begin + size] = digest
        return bytes(self._data)
