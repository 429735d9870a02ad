#!/usr/bin/env python3
"""Second implementation of the frozen coordination format, version 0, and keeper of its golden vectors.

Python 3.8 or newer, standard library only. It shares no code with the TypeScript library: its own encoder, decoder,
murmur2, token order, header codecs, fold and rules, written from ../README.md. So a mistake has to be made twice to get
through.

    mandate_vectors.py generate        writes ../v0; refuses to change or drop what is there
    mandate_vectors.py check           re-checks every vector both ways, prints a line for each that fails and a count
    mandate_vectors.py verify [FILE]   reads the lines of vectors.tsv (or stdin), prints them recomputed, names each
                                       that differs on stderr; succeeds only if none does

Everything before the part "The vectors" may start a new port. A vector that was ever published never changes: other
ports check themselves against it. New ones go to the end of their list.
"""

import hashlib
import json
import re
import struct
import sys
from pathlib import Path

VECTORS = Path(__file__).resolve().parent.parent / "v0"
TSV = VECTORS / "vectors.tsv"

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
    size = len(text.encode("utf-8"))
    if size == 0:
        raise ValueError("empty-name")
    if size > MAX_NAME_BYTES:
        raise ValueError("overlong-name")
    return string(text)


def encode_key(kind, role, member):
    if kind == "registration":
        return struct.pack(">hh", 0, 0) + name(role) + name(member)
    if kind != "lease":
        raise ValueError("unknown kind")
    if member != "":
        raise ValueError("lease-member")
    return struct.pack(">hh", 0, 1) + name(role) + string("")


def encode_registration(member, registered_at):
    return struct.pack(">h", 0) + name(member) + struct.pack(">q", registered_at)


def encode_lease(member, producer_id, producer_epoch, granted_at, deadline):
    if producer_id < 0 or producer_epoch < 0:
        raise ValueError("negative-token")
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


DECODERS = {"key": decode_key, "registration": decode_registration, "lease": decode_lease}


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


def parse_digits(text, greatest):
    """The number from 0 to `greatest` of which this is the one decimal text: digits, no leading zero. Else None."""
    if not re.fullmatch("0|[1-9][0-9]{0,18}", text) or int(text) > greatest:
        return None
    return int(text)


def parse_token(text):
    """(producer id, producer epoch) of '4242:7', else None."""
    producer_id, colon, producer_epoch = text.partition(":")
    token = parse_digits(producer_id, INT64_MAX), parse_digits(producer_epoch, INT16_MAX)
    return token if colon and None not in token else None


def token_pair(text):
    return (-1, -1) if text == "-1:-1" else parse_token(text)


def token_text(token):
    return f"{token[0]}:{token[1]}"


def compare(left, right):
    return (left > right) - (left < right)


# The shared rules: what the records of a role say, and what a member does about it


def fold(role, records):
    """(lease or None, roster) of `role`, from the (offset, key, value) of committed records of its partition.

    The lease is (member, producer_id, producer_epoch, granted_at, deadline, offset). The roster has (member, offset,
    registered_at, rank) in offset order; the rank of the lease's own member is None.
    """
    newest = {}
    for offset, key_bytes, value in sorted(records, key=lambda record: record[0]):
        fields = decode_key(key_bytes)
        if fields["role"] == role:
            newest[fields["kind"], fields["member"]] = offset, value
    lease_found, registrations = None, []
    for (kind, member), (offset, value) in newest.items():
        if not value:
            continue
        if kind == "lease":
            lease_found = (*lease_fields(decode_lease(value)), offset)
        else:
            registrations.append((offset, member, int(decode_registration(value)["registered_at"])))
    roster, rank = [], 0
    for offset, member, registered_at in sorted(registrations):
        if lease_found and lease_found[0] == member:
            roster.append((member, offset, registered_at, None))
        else:
            roster.append((member, offset, registered_at, rank))
            rank += 1
    return lease_found, roster


def lease_fields(fields):
    """The fields of a decoded or published lease as (member, producer_id, producer_epoch, granted_at, deadline)."""
    numbers = (int(fields[name]) for name in ("producer_id", "producer_epoch", "granted_at", "deadline"))
    return (fields["member"], *numbers)


def decide(member, holds, lease_found, roster, now, stagger_ms):
    """(decision, instant or None) of `member`, which leads under the token `holds` (None: it does not lead).

    The lease is None or (member, producer_id, producer_epoch, granted_at, deadline), the roster (member, offset,
    registered_at) in offset order, `now` the member's wall clock in ms.
    """
    registered_at = {name: at for name, _, at in roster}
    if member not in registered_at:
        return "register", None
    if lease_found is None:
        queue = [name for name, _, _ in roster]
        anchor = registered_at[member]
    else:
        holder, *token, _, deadline = lease_found
        if holder == member and now < deadline:
            return ("hold", deadline) if holds == tuple(token) else ("challenge", now)
        queue = [name for name, _, _ in roster if name != holder]
        anchor = deadline
    rank = queue.index(member) if member in queue else 0
    slot = anchor + rank * stagger_ms
    return ("challenge" if now >= slot else "wait"), slot


# The headers of this library


def encode_incarnation(ident, birth, registered_at):
    if len(ident) != 16:
        raise ValueError("not 16 random bytes")
    return ident + struct.pack(">qq", birth, registered_at)


def decode_incarnation(data):
    if len(data) != 32:
        return None
    return data[:16], *struct.unpack(">qq", data[16:])


def incarnation_order(data):
    ident, birth, registered_at = decode_incarnation(data) or wrong("no incarnation")
    return birth, registered_at, ident


def decode_term(data):
    return parse_digits(data.decode("latin-1"), INT64_MAX)


# Lines of text: vectors.tsv, and its lines recomputed


def encode_text(text):
    return text.encode("utf-8").hex()


def decode_bytes(column):
    # bytes.fromhex alone would skip blanks.
    return bytes.fromhex(column) if re.fullmatch("[0-9A-Fa-f]*", column) else wrong("not hex")


def decode_text(column):
    return decode_bytes(column).decode("utf-8")


def decode_name(column):
    text = decode_text(column)
    name(text)
    return text


def decode_ascii(column):
    """The text of a token. A byte that is not ASCII becomes a character that no token has."""
    return decode_bytes(column).decode("latin-1")


def decode_token(column):
    return parse_token(decode_ascii(column)) or wrong("no token")


def decode_number(column, bits=64):
    """A decimal number of so many bits, the sign among them. int() alone would take blanks, `_` and other digits."""
    match = re.fullmatch("([+-]?)0*([0-9]{1,19})", column) or wrong("no number")
    number = int(match[1] + match[2])
    return number if -(2 ** (bits - 1)) <= number < 2 ** (bits - 1) else wrong(f"no number of {bits} bits")


def or_dash(value, encode=str):
    return "-" if value is None else encode(value)


def unless_dash(column, decode):
    return None if column == "-" else decode(column)


def lease_column(fields):
    """One column of a lease's fields, the member first."""
    return ",".join([encode_text(fields[0]), *map(str, fields[1:])])


def parse_lease(column):
    member, producer_id, producer_epoch, granted_at, deadline = column.split(",")
    pair = decode_number(producer_id), decode_number(producer_epoch, 16)
    return (decode_name(member), *pair, decode_number(granted_at), decode_number(deadline))


def list_column(elements):
    return ";".join(",".join(fields) for fields in elements)


def parse_list(column):
    return [element.split(",") for element in column.split(";")] if column else []


def check_order(offsets):
    if any(later <= earlier for earlier, later in zip(offsets, offsets[1:])):
        wrong("not in the order of offsets")


def columns_of(file, v):
    """The columns of one vector of a JSON file, without its name and its check."""
    if file == "keys":
        return [v["kind"], encode_text(v["role"]), encode_text(v["member"]), v["bytes"]]
    if file == "registrations":
        return [encode_text(v["member"]), v["registered_at"], v["bytes"]]
    if file == "leases":
        numbers = (v[name] for name in ("producer_id", "producer_epoch", "granted_at", "deadline"))
        return [encode_text(v["member"]), *map(str, numbers), v["bytes"]]
    if file == "tombstones":
        return [or_dash(v["value"]), str(v["tombstone"]).lower()]
    if file == "partitions":
        return [encode_text(v["role"]), *(str(v[name]) for name in ("murmur2", "partitions", "partition"))]
    if file == "malformed":
        return [v["decoder"], v["bytes"], v["part"], str(v["offset"]), v["reason"]]
    if file == "folds":
        records = ((record["offset"], record["key"], or_dash(record["value"])) for record in v["records"])
        roster = ((encode_text(m["member"]), m["offset"], m["registered_at"], or_dash(m["rank"])) for m in v["roster"])
        lease_found = or_dash(v["lease"], lambda found: lease_column([*lease_fields(found), found["offset"]]))
        return [v["rule"], encode_text(v["role"]), list_column(records), lease_found, list_column(roster)]
    if file == "decisions":
        roster = ((encode_text(m["member"]), m["offset"], m["registered_at"]) for m in v["roster"])
        lease_found = or_dash(v["lease"], lambda found: lease_column(lease_fields(found)))
        given = [v["rule"], encode_text(v["self"]), or_dash(v["holds"], encode_text), lease_found, list_column(roster)]
        return [*given, v["now"], str(v["stagger_ms"]), v["decision"], or_dash(v["instant"])]
    texts = {"tokens": ("text", "left", "right")}.get(file, ())
    fields = [(name, value) for name, value in v.items() if name not in ("id", "check")]
    return [v["check"], *(encode_text(value) if name in texts else str(value) for name, value in fields)]


def recompute(file, columns):
    """The columns that this implementation has for a vector of which another printed `columns`.

    What a decoder gives is decoded from the bytes, the bytes are encoded from the other columns, results are computed
    from what they are results of. Raises where a column cannot be read or there is not the right number of them.
    """
    if file == "keys":
        kind, role, member, data = columns
        fields = decode_key(decode_bytes(data))
        encoded = encode_key(kind, decode_text(role), decode_text(member)).hex()
        return [fields["kind"], encode_text(fields["role"]), encode_text(fields["member"]), encoded]
    if file == "registrations":
        member, registered_at, data = columns
        fields = decode_registration(decode_bytes(data))
        encoded = encode_registration(decode_text(member), decode_number(registered_at)).hex()
        return [encode_text(fields["member"]), fields["registered_at"], encoded]
    if file == "leases":
        *given, data = columns
        decoded = lease_fields(decode_lease(decode_bytes(data)))
        return [encode_text(decoded[0]), *map(str, decoded[1:]), encode_lease(*parse_lease(",".join(given))).hex()]
    if file == "tombstones":
        column, _ = columns
        value = unless_dash(column, decode_bytes)
        return [or_dash(value, bytes.hex), str(not value).lower()]
    if file == "partitions":
        column, _, number, _ = columns
        role, partitions = decode_name(column), decode_number(number, 32)
        if partitions < 1:
            raise ValueError("a topic has a partition at least")
        hashed = murmur2(role.encode("utf-8"))
        return [encode_text(role), str(hashed), str(partitions), str(partition(role, partitions))]
    if file == "malformed":
        decoder, column, _, _, _ = columns
        data = decode_bytes(column)
        try:
            DECODERS.get(decoder, lambda _: wrong("unknown decoder"))(data)
        except Refused as refused:
            return [decoder, data.hex(), refused.part, str(refused.offset), refused.reason]
        return [decoder, data.hex(), "accepted", "-", "-"]
    if file == "folds":
        rule, column, records, _, _ = columns
        role = decode_name(column)
        parsed = [
            (decode_number(offset), decode_bytes(key_bytes), unless_dash(value, decode_bytes))
            for offset, key_bytes, value in parse_list(records)
        ]
        check_order([offset for offset, _, _ in parsed])
        printed = ((str(offset), key_bytes.hex(), or_dash(value, bytes.hex)) for offset, key_bytes, value in parsed)
        lease_found, roster = fold(role, parsed)
        found = ((encode_text(member), str(offset), str(at), or_dash(rank)) for member, offset, at, rank in roster)
        result = [or_dash(lease_found, lease_column), list_column(found)]
        return [rule, encode_text(role), list_column(printed), *result]
    if file == "decisions":
        rule, member, holds, lease_found, roster, now, stagger_ms, _, _ = columns
        itself, token = decode_name(member), unless_dash(holds, decode_token)
        held = unless_dash(lease_found, parse_lease)
        queue = [
            (decode_name(name), decode_number(offset), decode_number(at)) for name, offset, at in parse_list(roster)
        ]
        check_order([offset for _, offset, _ in queue])
        if len({name for name, _, _ in queue}) < len(queue):
            raise ValueError("a member twice in the roster")
        clock, stagger = decode_number(now), decode_number(stagger_ms, 32)
        decision, instant = decide(itself, token, held, queue, clock, stagger)
        if not INT64_MIN <= (instant or 0) <= INT64_MAX:
            raise ValueError("the slot is no number of 64 bits")
        printed = ((encode_text(name), str(offset), str(at)) for name, offset, at in queue)
        return [
            rule,
            encode_text(itself),
            or_dash(token, lambda pair: encode_text(token_text(pair))),
            or_dash(held, lease_column),
            list_column(printed),
            str(clock),
            str(stagger),
            decision,
            or_dash(instant),
        ]
    if file not in ("tokens", "headers"):
        raise ValueError("unknown kind of vector")
    what, *rest = columns
    if file == "tokens" and what == "text":
        producer_id, producer_epoch, text = rest
        pair = decode_token(text)
        printed = token_text((decode_number(producer_id), decode_number(producer_epoch, 16)))
        return [what, str(pair[0]), str(pair[1]), encode_text(printed)]
    if file == "tokens" and what == "order":
        left, right, _ = rest
        pairs = [token_pair(decode_ascii(side)) or wrong("no token") for side in (left, right)]
        return [what, *(encode_text(token_text(pair)) for pair in pairs), str(compare(*pairs))]
    if file == "tokens" and what == "refused":
        (column,) = rest
        return [what, decode_bytes(column).hex() if parse_token(decode_ascii(column)) is None else "accepted"]
    if file == "headers" and what == "incarnation":
        ident, birth, registered_at, data = rest
        decoded = decode_incarnation(decode_bytes(data)) or wrong("no incarnation")
        encoded = encode_incarnation(decode_bytes(ident), decode_number(birth), decode_number(registered_at))
        return [what, decoded[0].hex(), str(decoded[1]), str(decoded[2]), encoded.hex()]
    if file == "headers" and what == "incarnation-refused":
        (column,) = rest
        data = decode_bytes(column)
        return [what, data.hex() if decode_incarnation(data) is None else "accepted"]
    if file == "headers" and what == "incarnation-order":
        left, right, _ = rest
        sides = [decode_bytes(side) for side in (left, right)]
        return [what, *(side.hex() for side in sides), str(compare(*map(incarnation_order, sides)))]
    if file == "headers" and what == "term":
        term, column = rest
        decoded = decode_term(decode_bytes(column))
        if decoded is None:
            raise ValueError("no term")
        return [what, str(decoded), str(decode_number(term)).encode().hex()]
    if file == "headers" and what == "term-refused":
        (column,) = rest
        data = decode_bytes(column)
        return [what, data.hex() if decode_term(data) is None else "accepted"]
    raise ValueError("unknown check")


def wrong(reason):
    raise ValueError(reason)


def line_of(columns):
    """The columns and their check: the murmur2 of everything before its tab."""
    text = "\t".join(columns)
    return f"{text}\t{murmur2(text.encode('latin-1'))}"


def first_line(count):
    return line_of(["vectors", "0", str(count)])


def tsv(files, names):
    """vectors.tsv: the vectors `names` (`file/id`, in the order of digest.txt) of `files`."""
    by_name = {f"{file}/{vector['id']}": (file, vector) for file, vectors in files.items() for vector in vectors}
    lines = [line_of([name, *columns_of(*by_name[name])]) for name in names]
    return "".join(f"{line}\n" for line in [first_line(len(lines)), *lines])


def verify(text):
    """(lines recomputed, faults, vectors read, vectors that differ) of the text of a vectors.tsv."""
    faults, lines = [], text.split("\n")
    if lines[-1] == "":
        lines.pop()
    else:
        faults.append("the last line has no end")
    first, given = lines[:1], lines[1:]
    printed = [first_line(len(given))]
    if first != printed:
        faults.append(f"first line: {printed[0]!r} would be right, given {first[0]!r}" if first else "no first line")
    differing = 0
    for line in given:
        ident, *columns = line.split("\t")
        try:
            computed = line_of([ident, *recompute(ident.split("/")[0], columns[:-1])])
        except (Refused, ValueError) as error:
            differing += 1
            faults.append(f"{ident}: not readable: {error}")
            continue
        printed.append(computed)
        if computed != line:
            differing += 1
            pairs = zip(computed.split("\t"), line.split("\t"))
            at, (own, other) = next((at, pair) for at, pair in enumerate(pairs, 1) if pair[0] != pair[1])
            faults.append(f"{ident}: column {at}: printed {own}, given {other}")
    return printed, faults, len(given), differing


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
    ("quote-backslash", '"\\/'),
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
        ("key-kind-256", be("hh", 0, 256) + good_key[4:], "kind", 2, "unknown-kind"),
        ("key-kind-minus-32768", be("hh", 0, -32768) + good_key[4:], "kind", 2, "unknown-kind"),
        ("key-kind-minus-32767", be("hh", 0, -32767) + good_lease_key[4:], "kind", 2, "unknown-kind"),
        ("key-kind-257", be("hh", 0, 257) + good_lease_key[4:], "kind", 2, "unknown-kind"),
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
        ("registration-version-minus-1", be("h", -1) + good_registration[2:], "version", 0, "unknown-version"),
        ("registration-version-256", be("h", 256) + good_registration[2:], "version", 0, "unknown-version"),
        ("registration-missing-member", good_registration[:2], "member", 2, "truncated"),
        ("registration-cut-member-length", good_registration[:3], "member", 2, "truncated"),
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
        ("lease-version-minus-1", be("h", -1) + good_lease[2:], "version", 0, "unknown-version"),
        ("lease-version-256", be("h", 256) + good_lease[2:], "version", 0, "unknown-version"),
        ("lease-missing-member", good_lease[:2], "member", 2, "truncated"),
        ("lease-cut-member-length", good_lease[:3], "member", 2, "truncated"),
        ("lease-missing-producer-id", good_lease[:10], "producer_id", 10, "truncated"),
        ("lease-missing-granted-at", good_lease[:20], "granted_at", 20, "truncated"),
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
        "folds": build_folds(),
        "decisions": build_decisions(),
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
        (
            "then-bytes-unsigned",
            encode_incarnation(b"\x7f" * 16, 1, T0),
            encode_incarnation(b"\x80" + zeros[1:], 1, T0),
        ),
        ("last-byte", encode_incarnation(zeros[1:] + b"\x02", 1, T0), encode_incarnation(zeros[1:] + b"\x01", 1, T0)),
    ):
        order = compare(incarnation_order(left), incarnation_order(right))
        sides = {"left": left.hex(), "right": right.hex()}
        headers.append({"id": f"incarnation-order-{ident}", "check": "incarnation-order", **sides, "compare": order})
    for ident, term in (("zero", 0), ("plain", 123456), ("above-2-to-53", 2**53 + 1), ("greatest", INT64_MAX)):
        headers.append({"id": f"term-{ident}", "check": "term", "term": str(term), "bytes": str(term).encode().hex()})
    for ident, text in (
        ("empty", ""),
        ("leading-zero", "07"),
        ("sign", "+7"),
        ("negative", "-7"),
        ("blank", " 7"),
        ("newline", "7\n"),
        ("too-great", str(2**63)),
        ("twenty-digits", "1" * 20),
        ("hexadecimal", "0x7"),
        ("fraction", "7.0"),
        ("other-digit", "\u0667"),
        ("nul", "7\0"),
    ):
        headers.append({"id": f"term-refused-{ident}", "check": "term-refused", "bytes": text.encode().hex()})
    return headers


# The vectors: folds


def joins(offset, member, at=T0, role="controller", named=None):
    """The record of a registration; `named` is the member in its value where that is not the key's."""
    return offset, encode_key("registration", role, member), encode_registration(named or member, at)


def leaves(offset, member, value=None, role="controller"):
    return offset, encode_key("registration", role, member), value


def leads(offset, member, token=(4242, 7), granted_at=T0, deadline=T1, role="controller"):
    return offset, encode_key("lease", role, ""), encode_lease(member, *token, granted_at, deadline)


def resigns(offset, value=None, role="controller"):
    return offset, encode_key("lease", role, ""), value


NFC, NFD = "\u00e9", "e\u0301"


def like_roles(*others):
    """Two members of controller, and another two and a lease of each role whose name is like it."""
    records = [joins(1, "a"), joins(2, "b")]
    for at, role in enumerate(others, 1):
        records += [joins(10 * at, "a", T1, role=role), joins(10 * at + 1, "c", role=role)]
        records.append(leads(10 * at + 2, "a", (at, 0), role=role))
    return records


def folds():
    """(id, rule, role, records)."""
    abc = [joins(1, "a"), joins(2, "b"), joins(3, "c")]
    by_rule = {
        "registration-order": [
            ("empty-log", []),
            ("one-member", [joins(0, "a")]),
            ("three-members", [joins(1, "c"), joins(2, "a"), joins(3, "b")]),
            ("times-do-not-order", [joins(1, "a", T1), joins(2, "b", T0), joins(3, "c", 0)]),
            ("equal-times", [joins(4, "z", 0), joins(5, "y", 0), joins(6, "x", 0)]),
            (
                "holes-between",
                [joins(0, "a"), joins(7, "b"), joins(2**31, "c"), joins(2**53 + 1, "d"), joins(INT64_MAX, "e")],
            ),
            (
                "times-of-any-size",
                [joins(1, "a", INT64_MIN), joins(2, "b", -1), joins(3, "c", 2**53 + 1), joins(4, "d", INT64_MAX)],
            ),
            (
                "one-apart-above-2-to-53",
                [joins(2**53, "b"), joins(2**53 + 1, "a"), joins(INT64_MAX - 1, "d"), joins(INT64_MAX, "c")],
            ),
            ("twelve-members", [joins(100 + at, f"m{at}", T0 + at) for at in range(12)]),
        ],
        "newest-record": [
            ("joined-again", abc + [joins(4, "a", T1)]),
            ("joined-again-alone", [joins(1, "a", T0), joins(9, "a", T1)]),
            ("joined-again-same-value", abc + [joins(4, "b")]),
            ("joined-again-earlier-time", [joins(1, "a", T1), joins(2, "b", T1), joins(3, "a", T0)]),
            ("joined-thrice", abc + [joins(4, "a"), joins(5, "c"), joins(6, "a")]),
            ("all-joined-again-reversed", abc + [joins(4, "c"), joins(5, "b"), joins(6, "a")]),
        ],
        "registration-tombstone": [
            ("null", abc + [leaves(4, "b")]),
            ("zero-length", abc + [leaves(4, "b", b"")]),
            ("null-first-member", abc + [leaves(4, "a")]),
            ("joined-after-null", abc + [leaves(4, "a"), joins(5, "a", T1)]),
            ("joined-after-zero-length", abc + [leaves(4, "a", b""), joins(5, "a", T1)]),
            ("twice", abc + [leaves(4, "c"), leaves(5, "c", b"")]),
            ("nobody-left", abc + [leaves(4, "a"), leaves(5, "b", b""), leaves(6, "c")]),
            ("of-a-stranger", abc + [leaves(4, "d")]),
            ("before-any-registration", [leaves(0, "a"), joins(1, "a")]),
            ("of-the-holder", abc + [leads(4, "a"), leaves(5, "a")]),
        ],
        "key-member": [
            ("value-names-a-stranger", [joins(1, "a", named="x"), joins(2, "b")]),
            ("value-names-the-other", [joins(1, "a", named="b"), joins(2, "b")]),
            ("values-swapped", [joins(1, "a", T0, named="b"), joins(2, "b", T1, named="a")]),
            ("joined-again-as-the-other", [joins(1, "a"), joins(2, "b"), joins(3, "a", T1, named="b")]),
            ("value-names-the-holder", [joins(1, "a"), joins(2, "b", named="a"), leads(3, "a")]),
        ],
        "other-roles": [
            ("same-member", [joins(1, "a"), joins(2, "a", T1, role="dispatcher"), joins(3, "b")]),
            ("only-another", [joins(1, "a", role="dispatcher"), leads(2, "a", role="dispatcher")]),
            (
                "their-tombstones",
                abc + [leaves(4, "a", role="dispatcher"), leads(5, "b"), resigns(6, role="dispatcher")],
            ),
            ("their-newer-lease", abc + [leads(4, "a"), leads(5, "b", (4243, 0), role="dispatcher")]),
            ("shorter-name", like_roles("control", "c")),
            ("longer-name", [joins(1, "a"), joins(2, "b", role="controllers"), leads(3, "b", role="controllers")]),
            (
                "role-named-like-member",
                [joins(1, "controller"), joins(2, "controller", role="a"), leads(3, "controller", role="a")],
            ),
        ],
        "names-as-bytes": [
            ("members-nfc-and-nfd", [joins(1, NFC), joins(2, NFD), leads(3, NFD)]),
            ("roles-nfc-and-nfd", [joins(1, "a"), joins(2, "a", role=NFC), joins(3, "b", role=NFD)]),
            ("members-by-case", [joins(1, "a"), joins(2, "A"), leads(3, "A")]),
            ("holder-by-case", [joins(1, "a"), leads(2, "A")]),
            ("members-by-blanks", [joins(1, "a"), joins(2, "a "), joins(3, " a"), leaves(4, "a ")]),
            ("members-by-byte-order-mark", [joins(1, "\ufeffa"), joins(2, "a"), leads(3, "\ufeffa")]),
            ("members-by-nul", [joins(1, "a"), joins(2, "a\0"), joins(3, "\0"), leaves(4, "a\0", b"")]),
            ("numbers", [joins(1, "10"), joins(2, "9"), joins(3, "09"), joins(4, "9.0")]),
            (
                "words-of-languages",
                [joins(1, "__proto__"), joins(2, "constructor"), joins(3, "null"), leads(4, "__proto__")],
            ),
            ("offsets-not-code-points", [joins(1, "\U0001f600"), joins(2, "\uffff"), joins(3, "z")]),
            ("longest", [joins(1, "n" * 249), joins(2, "n" * 248), joins(3, NFC * 124), leads(4, "n" * 249)]),
            ("holder-by-blanks", [joins(1, "a"), joins(2, "a "), joins(3, " a"), leads(4, "a ")]),
            ("holder-by-nul", [joins(1, "a"), joins(2, "a\0"), joins(3, "\0a"), leads(4, "\0a")]),
            ("roles-by-case", like_roles("Controller", "CONTROLLER")),
            ("roles-by-blanks", like_roles(" controller", "controller ", "controller\n")),
            ("roles-by-byte-order-mark", like_roles("\ufeffcontroller", "controller\ufeff")),
            ("roles-by-nul", like_roles("controller\0", "\0controller", "controller\0a")),
            # A Cyrillic letter, and a full-width one, which NFKC makes the plain one.
            ("roles-that-look-alike", like_roles("\u0441ontroller", "\uff43ontroller")),
        ],
        "newest-lease": [
            ("lease-alone", [leads(0, "a")]),
            ("renewal", abc + [leads(4, "a"), leads(5, "a", granted_at=T0 + 10000, deadline=T1 + 10000)]),
            ("next-epoch", abc + [leads(4, "a"), leads(5, "b", (4242, 8), T1, T1 + 30000)]),
            ("smaller-producer-id", abc + [leads(4, "a", (2001, 1)), leads(5, "b", (1, 0))]),
            ("smaller-epoch", abc + [leads(4, "a", (4242, 8)), leads(5, "b", (4242, 7))]),
            (
                "earlier-deadline",
                abc + [leads(4, "a", deadline=T1), leads(5, "a", granted_at=T0 - 9000, deadline=T1 - 9000)],
            ),
            ("deadline-before-grant", abc + [leads(4, "b", granted_at=T1, deadline=T0)]),
            ("negative-times", abc + [leads(4, "b", granted_at=-30000, deadline=-1)]),
            ("longest-span", abc + [leads(4, "b", (INT64_MAX, INT16_MAX), INT64_MIN, INT64_MAX)]),
            ("smallest-token", abc + [leads(4, "a"), leads(5, "c", (0, 0))]),
            ("there-and-back", abc + [leads(4, "a"), leads(5, "b", (4242, 8)), leads(6, "a", (4242, 9))]),
        ],
        "lease-tombstone": [
            ("resigned-null", abc + [leads(4, "a"), resigns(5)]),
            ("resigned-zero-length", abc + [leads(4, "a"), resigns(5, b"")]),
            ("resigned-and-left", abc + [leads(4, "a"), resigns(5), leaves(6, "a")]),
            ("resigned-and-taken", abc + [leads(4, "a"), resigns(5), leads(6, "b", (4242, 8))]),
            ("resigned-before-any-lease", [resigns(0), joins(1, "a")]),
            ("resigned-twice", abc + [leads(4, "c"), resigns(5), resigns(6, b"")]),
        ],
        "rank-without-holder": [
            ("holder-first", abc + [leads(4, "a")]),
            ("holder-in-the-middle", abc + [leads(4, "b")]),
            ("holder-last", abc + [leads(4, "c")]),
            ("holder-alone", [joins(1, "a"), leads(2, "a")]),
            ("holder-not-registered", abc + [leads(4, "x")]),
            ("holder-joined-again-before", abc + [joins(4, "a", T1), leads(5, "a")]),
            ("holder-changed", abc + [leads(4, "a"), leads(5, "c", (4242, 8))]),
            ("member-came-behind", abc + [leads(4, "a"), joins(5, "d", T1)]),
            ("waiting-member-joined-again", abc + [leads(4, "a"), joins(5, "b", T1)]),
        ],
        "holder-registered-again": [
            ("holder-joined-again", abc + [leads(4, "a"), joins(5, "a", T1)]),
            (
                "holder-joined-before-renewal",
                abc + [leads(4, "a"), joins(5, "a", T1), leads(6, "a", deadline=T1 + 10000)],
            ),
            ("holder-swept-and-back", abc + [leads(4, "a"), leaves(5, "a"), joins(6, "a", T1)]),
            ("holder-joined-first-after", [joins(1, "b"), leads(2, "a"), joins(3, "a", T1)]),
        ],
    }
    for rule, cases in by_rule.items():
        for ident, records in cases:
            yield ident, rule, "controller", records
    both = [joins(1, "a"), joins(2, "b", role="dispatcher"), leads(3, "a"), joins(4, "a", T1, role="dispatcher")]
    both.append(leads(5, "b", (17, 3), role="dispatcher"))
    yield "interleaved", "other-roles", "controller", both
    yield "interleaved-the-other", "other-roles", "dispatcher", both
    # Roles and members that are one text when they stand behind one another, with nothing or a separator between them.
    separators = {"nothing": "", "slash": "/", "colon": ":", "nul": "\0", "comma": ",", "bar": "|", "tab": "\t"}
    for ident, separator in separators.items():
        inner, outer = f"a{separator}b", f"b{separator}c"
        records = [joins(1, "c", role=inner), joins(2, outer, T1, role="a"), leads(3, "c", role=inner)]
        yield f"joined-by-{ident}", "other-roles", inner, [*records, leaves(4, outer, role="a")]
    yield "role-by-case", "names-as-bytes", "Controller", like_roles("Controller", "CONTROLLER")
    yield "role-nfc", "names-as-bytes", NFC, [joins(1, "a", role=NFD), joins(2, "b", role=NFC), leads(3, "a", role=NFD)]
    yield "role-nfd", "names-as-bytes", NFD, [joins(1, "a", role=NFC), joins(2, "b", role=NFD)]


# The vectors: decisions

LENGTH, STAGGER, LONG_BEFORE = 30000, 5000, T0 - 3600000


def held(member="a", token=(4242, 7), granted_at=T0, deadline=T1):
    return (member, *token, granted_at, deadline)


def queue_of(*members, at=LONG_BEFORE):
    """A roster of these members, all registered at `at`: offsets alone order it."""
    return [(member, offset, at) for offset, member in enumerate(members, 1)]


def decisions():
    """(id, rule, self, holds, lease, roster, now, stagger_ms)."""
    abc, seven = queue_of("a", "b", "c"), queue_of("a", "b", "c", "d", "e", "f", "g")
    twelve = queue_of("a", *(f"m{at}" for at in range(11)))
    fifty = queue_of("a", *(f"m{at}" for at in range(49)))
    holes = [("a", 5, LONG_BEFORE), ("b", 90, LONG_BEFORE), ("c", 4711, LONG_BEFORE)]
    own, lease_a, beyond = (4242, 7), held(), 2**53 + 1

    def case(ident, member, lease_found, roster, now, holds=None, stagger_ms=STAGGER):
        return ident, member, holds, lease_found, roster, now, stagger_ms

    by_rule = {
        "register": [
            case("nobody-there", "a", None, [], T0),
            case("vacant-role-with-others", "d", None, abc, T0),
            case("others-lease-live", "d", lease_a, abc, T0),
            case("others-lease-expired", "d", lease_a, abc, T1 + LENGTH),
            case("lease-without-roster", "b", lease_a, [], T0),
            case("own-lease-live-not-registered", "a", lease_a, queue_of("b", "c"), T0),
            case("other-case", "A", None, abc, T0),
            case("other-normal-form", NFD, None, queue_of(NFC), T0),
            case("before-the-epoch", "d", None, abc, -1),
        ],
        "register-again": [
            case("swept-while-waiting", "b", lease_a, queue_of("a", "c"), T0),
            case("swept-and-expired", "b", lease_a, queue_of("a", "c"), T1 + LENGTH),
            case("swept-while-leading", "a", lease_a, queue_of("b", "c"), T0 + 1, holds=own),
            case("swept-in-a-vacant-role", "b", None, queue_of("a", "c"), T0),
        ],
        "restarted-member": [
            case("restarted-waits-in-old-place", "b", lease_a, abc, T1 - 1),
            case("restarted-challenges-in-old-place", "b", lease_a, abc, T1),
            case("restarted-in-a-vacant-role", "a", None, abc, T0),
        ],
        "hold": [
            case("granted-now", "a", lease_a, abc, T0, holds=own),
            case("in-the-middle", "a", lease_a, abc, T0 + 15000, holds=own),
            case("last-millisecond", "a", lease_a, abc, T1 - 1, holds=own),
            case("clock-before-the-grant", "a", lease_a, abc, T0 - 1, holds=own),
            case("last-in-the-roster", "c", held("c"), abc, T0, holds=own),
            case("alone", "a", lease_a, queue_of("a"), T0, holds=own),
            case("registered-later-than-now", "a", lease_a, queue_of("a", "b", at=T0 + 2), T0 + 1, holds=own),
            case("smallest-token", "a", held("a", (0, 0)), abc, T0, holds=(0, 0)),
            case("greatest-token", "a", held("a", (INT64_MAX, INT16_MAX)), abc, T0, holds=(INT64_MAX, INT16_MAX)),
            case("token-above-2-to-53", "a", held("a", (beyond, 1)), abc, T0, holds=(beyond, 1)),
            case("negative-times", "a", held("a", own, -60000, -30000), queue_of("a", at=-90000), -30001, holds=own),
            case("ends-at-zero", "a", held("a", own, -30000, 0), queue_of("a", at=-90000), -1, holds=own),
            case(
                "times-above-2-to-53", "a", held("a", own, beyond, beyond + LENGTH), abc, beyond + LENGTH - 1, holds=own
            ),
            case(
                "greatest-deadline", "a", held("a", own, INT64_MAX - LENGTH, INT64_MAX), abc, INT64_MAX - 1, holds=own
            ),
        ],
        "own-live-lease": [
            case("own-lease-granted-now", "a", lease_a, abc, T0),
            case("own-lease-last-millisecond", "a", lease_a, abc, T1 - 1),
            case("own-lease-alone", "a", lease_a, queue_of("a"), T0 + 1),
            case("own-lease-last-in-the-roster", "c", held("c"), abc, T0 + 1),
            case("own-lease-negative-times", "a", held("a", own, -60000, -30000), queue_of("a", at=-90000), -30001),
            case("own-lease-smallest-token", "a", held("a", (0, 0)), abc, T0 + 1),
            case("own-lease-clock-before-the-grant", "a", lease_a, abc, T0 - 1),
            case("own-lease-registered-after-the-grant", "a", lease_a, queue_of("a", "b", at=T0 + 1), T0 + 2),
            case("own-lease-registered-later-than-now", "a", lease_a, queue_of("a", "b", at=T0 + 2), T0 + 1),
            case("own-lease-registered-behind-its-deadline", "a", lease_a, queue_of("a", "b", at=T1 + 1), T0 + 1),
        ],
        "own-id-other-token": [
            case("later-epoch", "a", held("a", (4242, 8)), abc, T0 + 1, holds=own),
            case("earlier-epoch", "a", held("a", (4242, 6)), abc, T0 + 1, holds=own),
            case("other-producer-id", "a", held("a", (4243, 7)), abc, T0 + 1, holds=own),
            case("smaller-producer-id", "a", held("a", (1, 0)), abc, T0 + 1, holds=own),
            case("one-apart-above-2-to-53", "a", held("a", (beyond, 7)), abc, T0 + 1, holds=(beyond - 1, 7)),
            case("epoch-256-later", "a", held("a", (4242, 7 + 256)), abc, T0 + 1, holds=own),
            case("producer-id-2-to-32-later", "a", held("a", (4242 + 2**32, 7)), abc, T0 + 1, holds=own),
            case("halves-swapped", "a", held("a", (7, 4242)), abc, T0 + 1, holds=own),
        ],
        "own-token-other-name": [
            case("token-in-anothers-name", "b", lease_a, abc, T0 + 1, holds=own),
            case("token-in-anothers-name-expired", "b", lease_a, abc, T1, holds=own),
        ],
        "slot-after-lease": [
            case("rank-0-just-granted", "b", lease_a, abc, T0),
            case("rank-0-last-millisecond", "b", lease_a, abc, T1 - 1),
            case("rank-0-at-the-deadline", "b", lease_a, abc, T1),
            case("rank-0-after-the-deadline", "b", lease_a, abc, T1 + 1),
            case("rank-1-at-the-deadline", "c", lease_a, abc, T1),
            case("rank-1-last-millisecond", "c", lease_a, abc, T1 + STAGGER - 1),
            case("rank-1-at-its-slot", "c", lease_a, abc, T1 + STAGGER),
            case("rank-1-after-its-slot", "c", lease_a, abc, T1 + STAGGER + 1),
            case("rank-5-last-millisecond", "g", lease_a, seven, T1 + 5 * STAGGER - 1),
            case("rank-5-at-its-slot", "g", lease_a, seven, T1 + 5 * STAGGER),
            case("holder-in-the-middle-before", "a", held("b"), abc, T1),
            case("holder-in-the-middle-behind", "c", held("b"), abc, T1),
            case("holder-last-in-the-roster", "b", held("c"), abc, T1 + STAGGER),
            case("deposed-handle", "b", lease_a, abc, T1 - 1, holds=(4242, 6)),
            case("deposed-handle-challenges", "b", lease_a, abc, T1, holds=(4242, 6)),
            case("stagger-of-a-millisecond", "c", lease_a, abc, T1, stagger_ms=1),
            case("stagger-of-a-millisecond-passed", "c", lease_a, abc, T1 + 1, stagger_ms=1),
            case("stagger-of-a-length", "c", lease_a, abc, T1 + LENGTH - 1, stagger_ms=LENGTH),
            case("zero-length-lease", "b", held("a", own, T0, T0), abc, T0),
            case("deadline-at-zero", "b", held("a", own, -30000, 0), queue_of("a", "b", at=-90000), -1),
            case("deadline-at-zero-passed", "b", held("a", own, -30000, 0), queue_of("a", "b", at=-90000), 0),
            case("holes-between-the-offsets", "c", lease_a, holes, T1 + STAGGER - 1),
            case(
                "stagger-of-two-minutes", "c", held("a", own, T0, T0 + 600000), abc, T0 + 719999, stagger_ms=120000
            ),
            case("slot-at-zero", "c", held("a", own, -35000, -5000), queue_of("a", "b", "c", at=-90000), -1),
            case("all-times-negative", "c", held("a", own, -60000, -30000), queue_of("a", "b", "c", at=-90000), -25000),
            case("above-2-to-53", "b", held("a", own, beyond, beyond + LENGTH), abc, beyond + LENGTH - 1),
            case(
                "above-2-to-53-at-the-slot",
                "c",
                held("a", own, beyond, beyond + LENGTH),
                abc,
                beyond + LENGTH + STAGGER,
            ),
            case("slot-at-the-greatest", "c", held("a", own, INT64_MAX - 35000, INT64_MAX - 5000), abc, INT64_MAX - 1),
            case(
                "deadline-near-the-smallest",
                "b",
                held("a", own, INT64_MIN + 1, INT64_MIN + 30001),
                queue_of("a", "b", at=INT64_MIN),
                INT64_MIN + 30000,
            ),
        ],
        "holder-not-registered": [
            case("first-of-all", "a", held("x"), abc, T1),
            case("second-of-all", "b", held("x"), abc, T1),
            case("third-of-all", "c", held("x"), abc, T1 + 2 * STAGGER - 1),
            case("third-of-all-at-its-slot", "c", held("x"), abc, T1 + 2 * STAGGER),
            case("only-one-there", "a", held("x"), queue_of("a"), T1 - 1),
        ],
        "names-as-bytes": [
            case("lease-in-the-other-normal-form", NFC, held(NFD), queue_of(NFC, NFD), T0 + 1),
            case("lease-in-the-other-case", "a", held("A"), queue_of("a", "A"), T1),
            case("lease-with-a-blank-more", "a", held("a "), queue_of("a", "b"), T1 - 1),
            case("live-lease-in-the-other-case", "a", held("A"), queue_of("a", "A"), T0 + 1),
            case("behind-a-holder-in-the-other-case", "c", held("A"), queue_of("a", "A", "c"), T1),
            case("behind-a-holder-in-the-other-normal-form", "c", held(NFD), queue_of(NFC, NFD, "c"), T1),
            case("behind-a-holder-with-a-blank-more", "c", held("a "), queue_of("a", "a ", "c"), T1),
            case("behind-a-holder-with-a-nul-more", "c", held("a\0"), queue_of("a", "a\0", "c"), T1),
        ],
        "expired-own-lease": [
            case("own-token-at-the-deadline", "a", lease_a, abc, T1, holds=own),
            case("no-token-at-the-deadline", "a", lease_a, abc, T1),
            case("other-token-at-the-deadline", "a", lease_a, abc, T1, holds=(4242, 6)),
            case("own-token-long-after", "a", lease_a, abc, T1 + 10 * LENGTH, holds=own),
            case("own-lease-expired-alone", "a", lease_a, queue_of("a"), T1, holds=own),
            case("own-lease-expired-last-in-the-roster", "c", held("c"), abc, T1),
            case(
                "own-lease-expired-at-zero", "a", held("a", own, -30000, 0), queue_of("a", "b", at=-90000), 0, holds=own
            ),
        ],
        "late-registration": [
            case("came-after-the-deadline", "b", lease_a, [("a", 1, LONG_BEFORE), ("b", 2, T1 + 20000)], T1 + 20000),
            case(
                "behind-one-who-came-late",
                "c",
                lease_a,
                [("a", 1, LONG_BEFORE), ("b", 2, T1 + 20000), ("c", 3, LONG_BEFORE)],
                T1 + 20001,
            ),
            case(
                "rank-1-came-late",
                "c",
                lease_a,
                [("a", 1, LONG_BEFORE), ("b", 2, LONG_BEFORE), ("c", 3, T1 + 20000)],
                T1 + 20000,
            ),
        ],
        "far-rank": [
            case("rank-10-after-a-length", "m10", lease_a, twelve, T1 + LENGTH),
            case("rank-10-last-millisecond", "m10", lease_a, twelve, T1 + 10 * STAGGER - 1),
            case("rank-10-at-its-slot", "m10", lease_a, twelve, T1 + 10 * STAGGER),
            case("rank-48-last-millisecond", "m48", lease_a, fifty, T1 + 48 * STAGGER - 1),
            case("product-above-2-to-31", "d", lease_a, queue_of("a", "b", "c", "d"), T1, stagger_ms=2**30),
            case("greatest-stagger", "m48", lease_a, fifty, T1 + 48 * (2**31 - 1) - 1, stagger_ms=2**31 - 1),
        ],
        "deadline-before-grant": [
            case("between-deadline-and-grant", "b", held("a", own, T1, T0), abc, T0 + 1),
            case("before-both", "b", held("a", own, T1, T0), abc, T0 - 1),
            case("own-lease-between-both", "a", held("a", own, T1, T0), abc, T0 + 1, holds=own),
            case("own-lease-before-both", "a", held("a", own, T1, T0), abc, T0 - 1, holds=own),
        ],
        "long-lease": [
            case("sixteen-of-twenty-minutes", "b", held("a", own, T0, T0 + 1200000), abc, T0 + 960000),
            case("twenty-minutes-passed", "b", held("a", own, T0, T0 + 1200000), abc, T0 + 1200000),
            case("for-ever", "b", held("a", own, INT64_MIN, INT64_MAX), abc, INT64_MAX - 1),
        ],
        "wall-clock": [
            case("clock-a-year-ahead", "b", lease_a, abc, T1 + 31536000000),
            case("clock-a-year-behind", "b", lease_a, abc, T1 - 31536000000),
            case("clock-at-zero", "c", lease_a, abc, 0),
            case("clock-at-the-smallest", "b", lease_a, abc, INT64_MIN),
            case("clock-at-the-greatest", "c", lease_a, abc, INT64_MAX),
            case("own-lease-clock-at-the-smallest", "a", lease_a, abc, INT64_MIN, holds=own),
            case("own-lease-clock-at-the-greatest", "a", lease_a, abc, INT64_MAX, holds=own),
            case("own-lease-clock-2-to-32-behind", "a", lease_a, abc, T1 - 2**32, holds=own),
            case("clock-2-to-32-behind", "b", lease_a, abc, T1 - 2**32),
        ],
        "vacant-first": [
            case("first-at-its-registration", "a", None, queue_of("a", "b", at=T0), T0),
            case("first-before-its-registration", "a", None, queue_of("a", "b", at=T0), T0 - 1),
            case("first-after-its-registration", "a", None, queue_of("a", "b", at=T0), T0 + 1),
            case("first-and-alone", "a", None, queue_of("a", at=T0), T0),
            case("first-at-minus-one", "a", None, queue_of("a", at=-1), -1),
            case("first-above-2-to-53", "a", None, queue_of("a", "b", at=beyond), beyond - 1),
            case("first-at-the-greatest", "a", None, queue_of("a", "b", at=INT64_MAX), INT64_MAX),
            case("first-with-an-ended-handle", "a", None, queue_of("a", "b", at=T0), T0, holds=own),
        ],
        "vacant-rank": [
            case("second-at-its-registration", "b", None, [("a", 1, T0), ("b", 2, T0 + 60000)], T0 + 60000),
            case("second-last-millisecond", "b", None, [("a", 1, T0), ("b", 2, T0 + 60000)], T0 + 64999),
            case("second-at-its-slot", "b", None, [("a", 1, T0), ("b", 2, T0 + 60000)], T0 + 65000),
            case(
                "third-registered-before-the-first", "c", None, [("a", 1, T1), ("b", 2, T1), ("c", 3, T0)], T0 + 10000
            ),
            case("holes-between-the-offsets-vacant", "c", None, holes, LONG_BEFORE + 2 * STAGGER - 1),
            case("third-slot-at-zero", "c", None, queue_of("a", "b", "c", at=-10000), -1),
        ],
        "after-resignation": [
            case("second-registered-long-ago", "b", None, abc, T1),
            case("third-registered-long-ago", "c", None, abc, T1),
        ],
    }
    for rule, cases in by_rule.items():
        for ident, *fields in cases:
            yield (ident, rule, *fields)


def lease_dict(lease_found, offset=None):
    if lease_found is None:
        return None
    member, producer_id, producer_epoch, granted_at, deadline = lease_found
    fields = {
        "member": member,
        "producer_id": str(producer_id),
        "producer_epoch": producer_epoch,
        "granted_at": str(granted_at),
        "deadline": str(deadline),
    }
    return fields if offset is None else {**fields, "offset": str(offset)}


def build_folds():
    vectors = []
    for ident, rule, role, records in folds():
        assert [offset for offset, _, _ in records] == sorted({offset for offset, _, _ in records}), ident
        lease_found, roster = fold(role, records)
        vectors.append(
            {
                "id": ident,
                "rule": rule,
                "role": role,
                "records": [
                    {"offset": str(offset), "key": key_bytes.hex(), "value": None if value is None else value.hex()}
                    for offset, key_bytes, value in records
                ],
                "lease": None if lease_found is None else lease_dict(lease_found[:5], lease_found[5]),
                "roster": [
                    {"member": member, "offset": str(offset), "registered_at": str(at), "rank": rank}
                    for member, offset, at, rank in roster
                ],
            }
        )
    return vectors


def build_decisions():
    vectors = []
    for ident, rule, member, holds, lease_found, roster, now, stagger_ms in decisions():
        decision, instant = decide(member, holds, lease_found, roster, now, stagger_ms)
        assert INT64_MIN <= (instant or 0) <= INT64_MAX, ident
        vectors.append(
            {
                "id": ident,
                "rule": rule,
                "self": member,
                "holds": None if holds is None else f"{holds[0]}:{holds[1]}",
                "lease": lease_dict(lease_found),
                "roster": [
                    {"member": name, "offset": str(offset), "registered_at": str(at)} for name, offset, at in roster
                ],
                "now": str(now),
                "stagger_ms": stagger_ms,
                "decision": decision,
                "instant": None if instant is None else str(instant),
            }
        )
    return vectors


# Files, digest, commands


def canonical(vector):
    return json.dumps(vector, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode("utf-8")


def names_in(lines):
    return [line.split("  ")[1] for line in lines]


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
    if len(set(names_in(lines))) != len(lines):
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
    TSV.write_text(tsv(files, names_in(published + added)), encoding="ascii")
    print(f"{len(lines)} vectors, {len(lines) - len(published)} new")


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
    if file in ("folds", "decisions"):
        columns = columns_of(file, v)
        return recompute(file, columns) == columns
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
            except (Refused, ValueError, KeyError, struct.error) as error:
                sound, vector = False, {**vector, "error": str(error)}
            if not sound:
                failed.append(f"differs: {file}/{vector['id']} {vector.get('error', '')}".rstrip())
    published = (VECTORS / "digest.txt").read_text(encoding="ascii").splitlines()
    there = set(digest_lines(files))
    failed += [f"changed or gone since published: {line.split('  ')[1]}" for line in published if line not in there]
    failed += [f"not in digest.txt: {line.split('  ')[1]}" for line in sorted(there - set(published))]
    if not failed:
        text = TSV.read_text(encoding="latin-1")
        failed += ["vectors.tsv differs from the other files"] * (text != tsv(files, names_in(published)))
        failed += [f"vectors.tsv: {fault}" for fault in verify(text)[1]]
    for line in failed:
        print(line)
    print(f"{sum(len(vectors) for vectors in files.values())} vectors, {len(failed)} faults")
    return 1 if failed else 0


def run_verify(file=None):
    try:
        with open(file or 0, "rb") as given:
            # One character a byte, so that any byte that does not belong there is a difference and not a crash.
            text = given.read().decode("latin-1")
        printed, faults, count, differing = verify(text)
        with open(1, "wb", closefd=False) as output:
            output.write("".join(f"{line}\n" for line in printed).encode("latin-1"))
    except OSError as error:
        sys.exit(str(error))
    for fault in faults:
        print(fault.encode("ascii", "backslashreplace").decode("ascii"), file=sys.stderr)
    print(f"{count} vectors, {differing} differ", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    if sys.argv[1:] == ["generate"]:
        generate()
    elif sys.argv[1:] == ["check"]:
        sys.exit(check())
    elif sys.argv[1:2] == ["verify"] and len(sys.argv) <= 3:
        sys.exit(run_verify(*sys.argv[2:]))
    else:
        sys.exit(__doc__)
