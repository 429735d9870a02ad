#!/usr/bin/env python3
"""Second implementation of the frozen coordination format, version 0, and keeper of its golden vectors.

Python 3.8 or newer, standard library only. It shares no code with the TypeScript library: its own encoder, decoder,
murmur2, token order and header codecs, written from the layout in ../README.md. So a mistake has to be made twice to get
through.

    mandate_vectors.py generate    writes ../v0/*.json and ../v0/digest.txt; refuses to change or drop what is there
    mandate_vectors.py check       re-checks every vector both ways, prints one line for each that fails and a count

A vector that was ever published never changes: other ports check themselves against it. New ones go to the end of their
list.
"""

import hashlib
import json
import struct
import sys
from pathlib import Path

VECTORS = Path(__file__).resolve().parent.parent / "v0"

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
INT16_MAX = 2**15 - 1
MAX_NAME_BYTES = 249


# The format


class Refused(Exception):
    """Bytes outside the format: which part, at which byte, and why."""

    def __init__(self, part, offset, reason):
        super().__init__(f"{part} at {offset}: {reason}")
        self.part, self.offset, self.reason = part, offset, reason


def string(text):
    data = text.encode("utf-8")
    return struct.pack(">h", len(data)) + data


def name(text):
    if not 1 <= len(text.encode("utf-8")) <= MAX_NAME_BYTES:
        raise ValueError(f"not a name: {text!r}")
    return string(text)


def encode_key(kind, role, member):
    if kind == "registration":
        return struct.pack(">hh", 0, 0) + name(role) + name(member)
    assert kind == "lease" and member == ""
    return struct.pack(">hh", 0, 1) + name(role) + string("")


def encode_registration(member, registered_at):
    return struct.pack(">h", 0) + name(member) + struct.pack(">q", registered_at)


def encode_lease(member, producer_id, producer_epoch, granted_at, deadline):
    assert producer_id >= 0 and producer_epoch >= 0
    return struct.pack(">h", 0) + name(member) + struct.pack(">qhqq", producer_id, producer_epoch, granted_at, deadline)


class Cursor:
    def __init__(self, thing, data):
        self.thing, self.data, self.at = thing, data, 0

    def refuse(self, field, offset, reason):
        raise Refused(f"{self.thing}.{field}", offset, reason)

    def take(self, field, size):
        if self.at + size > len(self.data):
            self.refuse(field, self.at, "truncated")
        part = self.data[self.at : self.at + size]
        self.at += size
        return part

    def int16(self, field):
        return struct.unpack(">h", self.take(field, 2))[0]

    def int64(self, field):
        return struct.unpack(">q", self.take(field, 8))[0]

    def version(self):
        if self.int16("version") != 0:
            self.refuse("version", 0, "unknown-version")

    def name(self, field):
        start = self.at
        size = self.int16(field)
        if size < 0:
            self.refuse(field, start, "negative-length")
        if size == 0:
            self.refuse(field, start, "empty-name")
        if size > MAX_NAME_BYTES:
            self.refuse(field, start, "overlong-name")
        try:
            return self.take(field, size).decode("utf-8")
        except UnicodeDecodeError:
            self.refuse(field, start + 2, "invalid-utf8")

    def end(self):
        if self.at < len(self.data):
            self.refuse("end", self.at, "trailing-bytes")


def decode_key(data):
    cursor = Cursor("key", data)
    cursor.version()
    kind = cursor.int16("kind")
    if kind not in (0, 1):
        cursor.refuse("kind", 2, "unknown-kind")
    role = cursor.name("role")
    if kind == 0:
        member = cursor.name("member")
    else:
        start = cursor.at
        size = cursor.int16("member")
        if size < 0:
            cursor.refuse("member", start, "negative-length")
        if size > 0:
            cursor.refuse("member", start, "lease-member")
        member = ""
    cursor.end()
    return {"kind": ("registration", "lease")[kind], "role": role, "member": member}


def decode_registration(data):
    cursor = Cursor("registration", data)
    cursor.version()
    fields = {"member": cursor.name("member"), "registered_at": str(cursor.int64("registered_at"))}
    cursor.end()
    return fields


def decode_lease(data):
    cursor = Cursor("lease", data)
    cursor.version()
    member = cursor.name("member")
    producer_id = cursor.int64("producer_id")
    if producer_id < 0:
        cursor.refuse("producer_id", cursor.at - 8, "negative-producer-id")
    producer_epoch = cursor.int16("producer_epoch")
    if producer_epoch < 0:
        cursor.refuse("producer_epoch", cursor.at - 2, "negative-producer-epoch")
    granted_at, deadline = cursor.int64("granted_at"), cursor.int64("deadline")
    cursor.end()
    return {
        "member": member,
        "producer_id": str(producer_id),
        "producer_epoch": producer_epoch,
        "granted_at": str(granted_at),
        "deadline": str(deadline),
    }


def murmur2(data):
    """Kafka's murmur2, as a signed 32-bit integer."""
    mask, m = 0xFFFFFFFF, 0x5BD1E995
    h = (0x9747B28C ^ len(data)) & mask
    whole = len(data) // 4 * 4
    for at in range(0, whole, 4):
        k = int.from_bytes(data[at : at + 4], "little")
        k = k * m & mask
        k ^= k >> 24
        k = k * m & mask
        h = (h * m & mask) ^ k
    rest = data[whole:]
    if rest:
        h ^= int.from_bytes(rest, "little")
        h = h * m & mask
    h ^= h >> 13
    h = h * m & mask
    h ^= h >> 15
    return h - 2**32 if h >= 2**31 else h


def partition(role, partitions):
    return (murmur2(role.encode("utf-8")) & 0x7FFFFFFF) % partitions


def parse_token(text):
    """(producer id, producer epoch) of '4242:7', else None."""
    halves = text.split(":")
    if len(halves) != 2 or not all(half.isascii() and half.isdigit() for half in halves):
        return None
    token = int(halves[0]), int(halves[1])
    if f"{token[0]}:{token[1]}" != text or token[0] > INT64_MAX or token[1] > INT16_MAX:
        return None
    return token


def token_pair(text):
    return (-1, -1) if text == "-1:-1" else parse_token(text)


def compare(left, right):
    return (left > right) - (left < right)


# The headers of this library


def encode_incarnation(ident, birth, registered_at):
    assert len(ident) == 16
    return ident + struct.pack(">qq", birth, registered_at)


def decode_incarnation(data):
    if len(data) != 32:
        return None
    return data[:16], *struct.unpack(">qq", data[16:])


def incarnation_order(data):
    ident, birth, registered_at = decode_incarnation(data)
    return birth, registered_at, ident


def decode_term(data):
    try:
        text = data.decode("ascii")
    except UnicodeDecodeError:
        return None
    if not text.isdigit() or str(int(text)) != text or int(text) > INT64_MAX:
        return None
    return int(text)


# The vectors

T0, T1 = 1700000000000, 1700000030000

# Published with the format before this file existed: copied, never computed.
GIVEN_KEYS = [
    ("given-registration", "registration", "controller", "node-1", "00000000000A636F6E74726F6C6C657200066E6F64652D31"),
    ("given-lease", "lease", "controller", "", "00000001000A636F6E74726F6C6C65720000"),
]
GIVEN_REGISTRATIONS = [("given", "node-1", T0, "000000066E6F64652D310000018BCFE56800")]
GIVEN_LEASES = [
    ("given", "node-1", 4242, 7, T0, T1, "000000066E6F64652D31000000000000109200070000018BCFE568000000018BCFE5DD30")
]
GIVEN_PARTITIONS = [("controller", 12), ("dispatcher", 10), ("role-a", 10), ("role-b", 12)]

NAMES = [
    ("one-byte", "a"),
    ("dotted", "prod.orders"),
    ("blank", " "),
    ("inner-blanks", " lead er\t"),
    ("newline", "a\nb"),
    ("nul", "\0"),
    ("inner-nul", "a\0b"),
    ("delete", "\x7f"),
    ("quote-backslash", "\"\\/"),
    ("two-byte-first", "\u0080"),
    ("nfc", "\u00e9"),
    ("nfd", "e\u0301"),
    ("two-byte-last", "\u07ff"),
    ("three-byte-first", "\u0800"),
    ("han", "\u6f22\u5b57"),
    ("line-separator", "\u2028"),
    ("before-surrogates", "\ud7ff"),
    ("after-surrogates", "\ue000"),
    ("byte-order-mark", "\ufeff"),
    ("leading-byte-order-mark", "\ufeffcontroller"),
    ("replacement-character", "\ufffd"),
    ("noncharacter", "\uffff"),
    ("four-byte-first", "\U00010000"),
    ("emoji", "\U0001f600"),
    ("joined-emoji", "\U0001f469\u200d\U0001f680"),
    ("last-code-point", "\U0010ffff"),
    ("right-to-left", "\u05e9\u05dc\u05d5\u05dd"),
    ("mixed", "role/\u00e9\u6f22\U0001f600"),
    ("upper-case", "CONTROLLER"),
    ("bytes-127", "n" * 127),
    ("bytes-128", "n" * 128),
    ("bytes-248", "n" * 248),
    ("bytes-249", "n" * 249),
    ("bytes-249-two-byte", "\u00e9" * 124 + "e"),
    ("bytes-249-three-byte", "\u6f22" * 83),
    ("bytes-249-four-byte", "\U0001f600" * 62 + "."),
]
TIMES = [
    ("zero", 0),
    ("one", 1),
    ("minus-one", -1),
    ("above-2-to-31", 2**31),
    ("above-2-to-32", 2**32),
    ("above-2-to-53", 2**53 + 1),
    ("below-minus-2-to-53", -(2**53) - 1),
    ("greatest", INT64_MAX),
    ("smallest", INT64_MIN),
]
TOKENS = [
    ("zero", 0, 0),
    ("id-zero", 0, 7),
    ("epoch-zero", 4242, 0),
    ("epoch-one-byte", 4242, 255),
    ("epoch-two-bytes", 4242, 256),
    ("epoch-last-minted", 4242, 32766),
    ("epoch-greatest", 4242, INT16_MAX),
    ("id-above-2-to-31", 2**31, 1),
    ("id-above-2-to-32", 2**32 + 5, 1),
    ("id-above-2-to-53", 2**53 + 1, 1),
    ("id-greatest", INT64_MAX, 0),
    ("both-greatest", INT64_MAX, INT16_MAX),
]
ORDERS = [
    ("no-epoch-self", "-1:-1", "-1:-1"),
    ("no-epoch-below-all", "-1:-1", "0:0"),
    ("no-epoch-below-greatest", "-1:-1", f"{INT64_MAX}:{INT16_MAX}"),
    ("above-no-epoch", "0:0", "-1:-1"),
    ("self", "4242:7", "4242:7"),
    ("epoch-decides", "4242:7", "4242:8"),
    ("epoch-by-number", "4242:9", "4242:10"),
    ("id-before-epoch", "4242:32767", "4243:0"),
    ("id-by-number", "999:5", "1000:0"),
    ("rotated-to-a-smaller-id", "1:0", "2001:1"),
    ("above-2-to-53", "9007199254740992:0", "9007199254740993:0"),
    ("extremes", f"{INT64_MAX}:{INT16_MAX}", "0:0"),
]
REFUSED_TOKENS = [
    ("empty", ""),
    ("no-colon", "42427"),
    ("no-epoch", "4242:"),
    ("no-id", ":7"),
    ("two-colons", "4242:7:1"),
    ("negative-id", "-1:7"),
    ("negative-epoch", "4242:-1"),
    ("no-epoch-token", "-1:-1"),
    ("id-too-great", f"{2**63}:0"),
    ("epoch-too-great", "4242:32768"),
    ("hexadecimal", "0x10:7"),
    ("fraction", "4242.0:7"),
    ("blank", "4242: 7"),
    ("trailing-newline", "4242:7\n"),
    ("other-digits", "\u0664\u0662:7"),
]


def be(fmt, *values):
    return struct.pack(">" + fmt, *values)


def key(kind, role, member):
    """The raw bytes of a key over raw strings, sound or not."""
    return be("hh", 0, kind) + be("h", len(role)) + role + be("h", len(member)) + member


def registration(member, registered_at=T0):
    return be("h", 0) + be("h", len(member)) + member + be("q", registered_at)


def lease(member, producer_id=4242, producer_epoch=7):
    return be("h", 0) + be("h", len(member)) + member + be("qhqq", producer_id, producer_epoch, T0, T1)


BAD_UTF8 = [
    ("lone-continuation", b"\x80"),
    ("cut-two-byte", b"a\xc3"),
    ("cut-four-byte", b"\xf0\x9f\x98"),
    ("overlong-nul", b"\xc0\x80"),
    ("overlong-slash", b"\xe0\x80\xaf"),
    ("surrogate", b"\xed\xa0\xbd"),
    ("surrogate-pair", b"\xed\xa0\xbd\xed\xb8\x80"),
    ("above-last-code-point", b"\xf4\x90\x80\x80"),
    ("five-byte-form", b"\xf8\x88\x80\x80\x80"),
    ("byte-ff", b"\xff"),
]


def malformed():
    """(id, decoder, bytes, part, offset, reason), each with exactly one fault."""
    role, member = b"controller", b"node-1"
    good_key = key(0, role, member)
    good_lease_key = key(1, role, b"")
    good_registration, good_lease = registration(member), lease(member)

    key_faults = [
        ("key-empty", b"", "version", 0, "truncated"),
        ("key-cut-version", b"\x00", "version", 0, "truncated"),
        ("key-version-1", be("h", 1) + good_key[2:], "version", 0, "unknown-version"),
        ("key-version-minus-1", be("h", -1) + good_key[2:], "version", 0, "unknown-version"),
        ("key-version-256", be("h", 256) + good_key[2:], "version", 0, "unknown-version"),
        ("key-cut-kind", good_key[:3], "kind", 2, "truncated"),
        ("key-kind-2", be("hh", 0, 2) + good_key[4:], "kind", 2, "unknown-kind"),
        ("key-kind-minus-1", be("hh", 0, -1) + good_key[4:], "kind", 2, "unknown-kind"),
        ("key-cut-role-length", good_key[:5], "role", 4, "truncated"),
        ("key-cut-role", good_key[:15], "role", 6, "truncated"),
        ("key-empty-role", key(0, b"", member), "role", 4, "empty-name"),
        ("key-overlong-role", key(0, b"r" * 250, member), "role", 4, "overlong-name"),
        ("key-negative-role-length", be("hhh", 0, 0, -1) + be("h", 6) + member, "role", 4, "negative-length"),
        ("key-missing-member", good_key[:16], "member", 16, "truncated"),
        ("key-cut-member-length", good_key[:17], "member", 16, "truncated"),
        ("key-cut-member", good_key[:-1], "member", 18, "truncated"),
        ("key-empty-member", key(0, role, b""), "member", 16, "empty-name"),
        ("key-overlong-member", key(0, role, b"m" * 250), "member", 16, "overlong-name"),
        ("key-overlong-member-by-bytes", key(0, role, "\u00e9".encode() * 125), "member", 16, "overlong-name"),
        ("key-negative-member-length", good_key[:16] + be("h", -32768), "member", 16, "negative-length"),
        ("key-trailing-byte", good_key + b"\x00", "end", 24, "trailing-bytes"),
        ("lease-key-missing-member", good_lease_key[:-2], "member", 16, "truncated"),
        ("lease-key-empty-role", key(1, b"", b""), "role", 4, "empty-name"),
        ("lease-key-overlong-role", key(1, b"r" * 250, b""), "role", 4, "overlong-name"),
        ("lease-key-member", key(1, role, member), "member", 16, "lease-member"),
        ("lease-key-negative-member-length", good_lease_key[:-2] + be("h", -1), "member", 16, "negative-length"),
        ("lease-key-trailing-bytes", good_lease_key + member, "end", 18, "trailing-bytes"),
    ]
    registration_faults = [
        ("registration-cut-version", b"\x00", "version", 0, "truncated"),
        ("registration-version-1", be("h", 1) + good_registration[2:], "version", 0, "unknown-version"),
        ("registration-cut-member", good_registration[:9], "member", 4, "truncated"),
        ("registration-empty-member", registration(b""), "member", 2, "empty-name"),
        ("registration-overlong-member", registration(b"m" * 250), "member", 2, "overlong-name"),
        ("registration-negative-length", be("hh", 0, -6) + good_registration[4:], "member", 2, "negative-length"),
        ("registration-missing-time", good_registration[:10], "registered_at", 10, "truncated"),
        ("registration-cut-time", good_registration[:-1], "registered_at", 10, "truncated"),
        ("registration-trailing-byte", good_registration + b"\x00", "end", 18, "trailing-bytes"),
        ("registration-is-a-lease", good_lease, "end", 18, "trailing-bytes"),
    ]
    lease_faults = [
        ("lease-cut-version", b"\x00", "version", 0, "truncated"),
        ("lease-version-1", be("h", 1) + good_lease[2:], "version", 0, "unknown-version"),
        ("lease-cut-member", good_lease[:9], "member", 4, "truncated"),
        ("lease-empty-member", lease(b""), "member", 2, "empty-name"),
        ("lease-overlong-member", lease(b"m" * 250), "member", 2, "overlong-name"),
        ("lease-negative-length", be("hh", 0, -6) + good_lease[4:], "member", 2, "negative-length"),
        ("lease-cut-producer-id", good_lease[:17], "producer_id", 10, "truncated"),
        ("lease-producer-id-minus-1", lease(member, -1, 7), "producer_id", 10, "negative-producer-id"),
        ("lease-producer-id-smallest", lease(member, INT64_MIN, 7), "producer_id", 10, "negative-producer-id"),
        ("lease-cut-producer-epoch", good_lease[:19], "producer_epoch", 18, "truncated"),
        ("lease-producer-epoch-minus-1", lease(member, 4242, -1), "producer_epoch", 18, "negative-producer-epoch"),
        ("lease-producer-epoch-smallest", lease(member, 4242, -32768), "producer_epoch", 18, "negative-producer-epoch"),
        ("lease-cut-granted-at", good_lease[:27], "granted_at", 20, "truncated"),
        ("lease-missing-deadline", good_lease[:28], "deadline", 28, "truncated"),
        ("lease-cut-deadline", good_lease[:-1], "deadline", 28, "truncated"),
        ("lease-trailing-byte", good_lease + b"\x00", "end", 36, "trailing-bytes"),
        ("lease-is-a-registration", good_registration, "producer_epoch", 18, "truncated"),
    ]
    for decoder, faults in (("key", key_faults), ("registration", registration_faults), ("lease", lease_faults)):
        for ident, data, field, offset, reason in faults:
            yield ident, decoder, data, f"{decoder}.{field}", offset, reason

    for label, data in BAD_UTF8:
        yield f"key-role-{label}", "key", key(0, data, member), "key.role", 6, "invalid-utf8"
        yield f"key-member-{label}", "key", key(0, role, data), "key.member", 18, "invalid-utf8"
        yield f"registration-{label}", "registration", registration(data), "registration.member", 4, "invalid-utf8"
        yield f"lease-{label}", "lease", lease(data), "lease.member", 4, "invalid-utf8"


def build():
    """Every vector by file, in the order in which it was published."""
    keys = [
        {"id": ident, "kind": kind, "role": role, "member": member, "bytes": given.lower()}
        for ident, kind, role, member, given in GIVEN_KEYS
    ]
    for label, text in NAMES:
        for kind, role, member in (("registration", text, text), ("lease", text, "")):
            data = encode_key(kind, role, member)
            keys.append({"id": f"{kind}-{label}", "kind": kind, "role": role, "member": member, "bytes": data.hex()})
    short, long = NAMES[0][1], "n" * 249
    for label, role, member in (("short-role-long-member", short, long), ("long-role-short-member", long, short)):
        data = encode_key("registration", role, member)
        fields = {"kind": "registration", "role": role, "member": member}
        keys.append({"id": f"registration-{label}", **fields, "bytes": data.hex()})

    registrations = [
        {"id": ident, "member": member, "registered_at": str(at), "bytes": given.lower()}
        for ident, member, at, given in GIVEN_REGISTRATIONS
    ]
    for label, member, at in [(f"name-{label}", text, T0) for label, text in NAMES] + [
        (f"time-{label}", "node-1", at) for label, at in TIMES
    ]:
        data = encode_registration(member, at)
        registrations.append({"id": label, "member": member, "registered_at": str(at), "bytes": data.hex()})

    leases = []

    def add_lease(ident, member, producer_id, producer_epoch, granted_at, deadline, data):
        leases.append(
            {
                "id": ident,
                "member": member,
                "producer_id": str(producer_id),
                "producer_epoch": producer_epoch,
                "granted_at": str(granted_at),
                "deadline": str(deadline),
                "bytes": data.hex(),
            }
        )

    for ident, *fields, given in GIVEN_LEASES:
        add_lease(ident, *fields, bytes.fromhex(given))
    rows = [(f"name-{label}", text, 4242, 7, T0, T1) for label, text in NAMES]
    rows += [(f"token-{label}", "node-1", pid, epoch, T0, T1) for label, pid, epoch in TOKENS]
    rows += [(f"granted-{label}", "node-1", 4242, 7, at, T1) for label, at in TIMES]
    rows += [(f"deadline-{label}", "node-1", 4242, 7, T0, at) for label, at in TIMES]
    rows += [
        ("deadline-before-grant", "node-1", 4242, 7, T1, T0),
        ("deadline-is-grant", "node-1", 4242, 7, T0, T0),
        ("longest-span", "node-1", 4242, 7, INT64_MIN, INT64_MAX),
        ("all-greatest", "n" * 249, INT64_MAX, INT16_MAX, INT64_MAX, INT64_MAX),
        ("all-smallest", "a", 0, 0, INT64_MIN, INT64_MIN),
    ]
    for row in rows:
        add_lease(*row, encode_lease(*row[1:]))

    tombstones = [
        {"id": "null", "value": None, "tombstone": True},
        {"id": "zero-length", "value": "", "tombstone": True},
        {"id": "one-zero-byte", "value": "00", "tombstone": False},
        {"id": "registration", "value": registrations[0]["bytes"], "tombstone": False},
        {"id": "lease", "value": leases[0]["bytes"], "tombstone": False},
    ]

    partitions = []

    def add_partition(ident, role, count, index):
        hashed = murmur2(role.encode("utf-8"))
        partitions.append({"id": ident, "role": role, "murmur2": hashed, "partitions": count, "partition": index})

    for role, given in GIVEN_PARTITIONS:
        add_partition(f"given-{role}", role, 16, given)
    for label, text in NAMES:
        add_partition(f"name-{label}", text, 16, partition(text, 16))
    # Lengths 1 to 9 end at each remainder of four; "foobar" has the sign bit set, so it tells a cut sign from an
    # absolute value.
    for text in ["123456789"[:size] for size in range(1, 10)] + ["foobar"]:
        add_partition(f"length-{text}", text, 50, partition(text, 50))
    for count in (1, 2, 3, 7, 17, 100, 1000, INT16_MAX, 2**31 - 1):
        add_partition(f"count-{count}", "controller", count, partition("controller", count))

    tokens = []
    for label, pid, epoch in [("given", 4242, 7)] + TOKENS:
        fields = {"producer_id": str(pid), "producer_epoch": epoch, "text": f"{pid}:{epoch}"}
        tokens.append({"id": f"text-{label}", "check": "text", **fields})
    for label, left, right in ORDERS:
        order = compare(token_pair(left), token_pair(right))
        tokens.append({"id": f"order-{label}", "check": "order", "left": left, "right": right, "compare": order})
    tokens += [{"id": f"refused-{label}", "check": "refused", "text": text} for label, text in REFUSED_TOKENS]

    malformed_vectors = [
        {"id": ident, "decoder": decoder, "bytes": data.hex(), "part": part, "offset": offset, "reason": reason}
        for ident, decoder, data, part, offset, reason in malformed()
    ]

    return {
        "keys": keys,
        "registrations": registrations,
        "leases": leases,
        "tombstones": tombstones,
        "partitions": partitions,
        "tokens": tokens,
        "malformed": malformed_vectors,
        "headers": build_headers(),
    }


def build_headers():
    count_up, zeros, ones = bytes(range(16)), bytes(16), b"\xff" * 16
    incarnations = [
        ("incarnation-plain", count_up, 4711, T0),
        ("incarnation-zero", zeros, 0, 0),
        ("incarnation-greatest", ones, INT64_MAX, INT64_MAX),
        ("incarnation-smallest-time", count_up, 0, INT64_MIN),
    ]
    headers = []
    for ident, random, birth, at in incarnations:
        fields = {"random": random.hex(), "birth": str(birth), "registered_at": str(at)}
        data = encode_incarnation(random, birth, at)
        headers.append({"id": ident, "check": "incarnation", **fields, "bytes": data.hex()})
    plain = encode_incarnation(count_up, 4711, T0)
    for ident, data in (("empty", b""), ("one-short", plain[:-1]), ("one-long", plain + b"\x00")):
        headers.append({"id": f"incarnation-refused-{ident}", "check": "incarnation-refused", "bytes": data.hex()})
    for ident, left, right in (
        ("self", plain, plain),
        ("birth-first", encode_incarnation(ones, 1, T1), encode_incarnation(zeros, 2, T0)),
        ("then-registration", encode_incarnation(ones, 1, T0), encode_incarnation(zeros, 1, T1)),
        ("negative-time", encode_incarnation(zeros, 1, -1), encode_incarnation(zeros, 1, 0)),
        ("then-bytes-unsigned", encode_incarnation(b"\x7f" * 16, 1, T0), encode_incarnation(b"\x80" + zeros[1:], 1, T0)),
        ("last-byte", encode_incarnation(zeros[1:] + b"\x02", 1, T0), encode_incarnation(zeros[1:] + b"\x01", 1, T0)),
    ):
        order = compare(incarnation_order(left), incarnation_order(right))
        sides = {"left": left.hex(), "right": right.hex()}
        headers.append({"id": f"incarnation-order-{ident}", "check": "incarnation-order", **sides, "compare": order})
    for ident, term in (("zero", 0), ("plain", 123456), ("above-2-to-53", 2**53 + 1), ("greatest", INT64_MAX)):
        headers.append({"id": f"term-{ident}", "check": "term", "term": str(term), "bytes": str(term).encode().hex()})
    for ident, text in (
        ("empty", ""), ("leading-zero", "07"), ("sign", "+7"), ("negative", "-7"), ("blank", " 7"), ("newline", "7\n"),
        ("too-great", str(2**63)), ("twenty-digits", "1" * 20), ("hexadecimal", "0x7"), ("fraction", "7.0"),
        ("other-digit", "\u0667"), ("nul", "7\0"),
    ):
        headers.append({"id": f"term-refused-{ident}", "check": "term-refused", "bytes": text.encode().hex()})
    return headers


# Files, digest, commands


def canonical(vector):
    return json.dumps(vector, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode("utf-8")


def digest_lines(files):
    for file, vectors in files.items():
        for vector in vectors:
            yield f"{hashlib.sha256(canonical(vector)).hexdigest()}  {file}/{vector['id']}"


def render(vectors):
    """One vector a line and ASCII only, so that a change shows as a line and no editor can normalise a name."""
    return "[\n" + ",\n".join("  " + json.dumps(vector) for vector in vectors) + "\n]\n"


def generate():
    files = build()
    lines = list(digest_lines(files))
    names = [line.split("  ")[1] for line in lines]
    if len(set(names)) != len(names):
        sys.exit("two vectors share an id")
    digest = VECTORS / "digest.txt"
    published = digest.read_text().splitlines() if digest.exists() else []
    lost = set(published) - set(lines)
    if lost:
        sys.exit("refused: published vectors would change or go:\n" + "\n".join(sorted(lost)))
    VECTORS.mkdir(exist_ok=True)
    for file, vectors in files.items():
        (VECTORS / f"{file}.json").write_text(render(vectors), encoding="ascii")
    # Appended in the order of publication: what is there keeps its place.
    added = [line for line in lines if line not in set(published)]
    digest.write_text("\n".join(published + added) + "\n", encoding="ascii")
    print(f"{len(lines)} vectors, {len(lines) - len(published)} new")


DECODERS = {"key": decode_key, "registration": decode_registration, "lease": decode_lease}


def holds(file, v):
    """Whether this implementation agrees with one vector, both ways."""
    if file == "keys":
        data = bytes.fromhex(v["bytes"])
        fields = {"kind": v["kind"], "role": v["role"], "member": v["member"]}
        return encode_key(**fields) == data and decode_key(data) == fields
    if file == "registrations":
        data = bytes.fromhex(v["bytes"])
        fields = {"member": v["member"], "registered_at": v["registered_at"]}
        return encode_registration(v["member"], int(v["registered_at"])) == data and decode_registration(data) == fields
    if file == "leases":
        data = bytes.fromhex(v["bytes"])
        fields = {name: v[name] for name in ("member", "producer_id", "producer_epoch", "granted_at", "deadline")}
        numbers = int(v["producer_id"]), v["producer_epoch"], int(v["granted_at"]), int(v["deadline"])
        return encode_lease(v["member"], *numbers) == data and decode_lease(data) == fields
    if file == "tombstones":
        return (not v["value"]) is v["tombstone"]
    if file == "partitions":
        return murmur2(v["role"].encode()) == v["murmur2"] and partition(v["role"], v["partitions"]) == v["partition"]
    if file == "malformed":
        try:
            DECODERS[v["decoder"]](bytes.fromhex(v["bytes"]))
        except Refused as refused:
            return (refused.part, refused.offset, refused.reason) == (v["part"], v["offset"], v["reason"])
        return False
    check = v["check"]
    if check == "text":
        token = int(v["producer_id"]), v["producer_epoch"]
        return parse_token(v["text"]) == token and f"{token[0]}:{token[1]}" == v["text"]
    if check == "order":
        return compare(token_pair(v["left"]), token_pair(v["right"])) == v["compare"]
    if check == "refused":
        return parse_token(v["text"]) is None
    if check == "incarnation":
        fields = bytes.fromhex(v["random"]), int(v["birth"]), int(v["registered_at"])
        data = bytes.fromhex(v["bytes"])
        return encode_incarnation(*fields) == data and decode_incarnation(data) == fields
    if check == "incarnation-refused":
        return decode_incarnation(bytes.fromhex(v["bytes"])) is None
    if check == "incarnation-order":
        left, right = (incarnation_order(bytes.fromhex(v[side])) for side in ("left", "right"))
        return compare(left, right) == v["compare"]
    if check == "term":
        return decode_term(bytes.fromhex(v["bytes"])) == int(v["term"]) and v["term"].encode().hex() == v["bytes"]
    if check == "term-refused":
        return decode_term(bytes.fromhex(v["bytes"])) is None
    return False


def check():
    files = {path.stem: json.loads(path.read_text(encoding="ascii")) for path in sorted(VECTORS.glob("*.json"))}
    failed = []
    for file, vectors in files.items():
        for vector in vectors:
            try:
                sound = holds(file, vector)
            except (Refused, ValueError, KeyError, AssertionError, struct.error) as error:
                sound, vector = False, {**vector, "error": str(error)}
            if not sound:
                failed.append(f"differs: {file}/{vector['id']} {vector.get('error', '')}".rstrip())
    published = (VECTORS / "digest.txt").read_text(encoding="ascii").splitlines()
    there = set(digest_lines(files))
    failed += [f"changed or gone since published: {line.split('  ')[1]}" for line in published if line not in there]
    failed += [f"not in digest.txt: {line.split('  ')[1]}" for line in sorted(there - set(published))]
    for line in failed:
        print(line)
    print(f"{sum(len(vectors) for vectors in files.values())} vectors, {len(failed)} faults")
    return 1 if failed else 0


if __name__ == "__main__":
    if sys.argv[1:] == ["generate"]:
        generate()
    elif sys.argv[1:] == ["check"]:
        sys.exit(check())
    else:
        sys.exit(__doc__)
