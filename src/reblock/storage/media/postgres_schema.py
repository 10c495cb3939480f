"""The schema `reblock` in a database: a table of objects, a view of arrays, and a function that reads a region.

::

    reblock.objects    key            data        stamp   modified   description
                       t2m/array      …           17      …          {"shape": [365, 180], "dtype": "<f4", …}
                       t2m/c/00000000000000000000   a chunk
                       t2m/.reblock/journal/00000000     the log of an unfinished run

    reblock.arrays     name   dims         lower_bounds   dtype   chunks …        the rows with a description

The row with a description is the entry of an array in the catalogue. It is written last, in one transaction, and that
publishes the array. If the array is small, its elements are the `data` of the same row.
"""

from __future__ import annotations

from typing import LiteralString

from reblock.storage.media.postgres_slice import SLICE

#: Begins the comment of the schema; an identity of the database follows.
VERSION: LiteralString = "reblock 1"
#: The most bytes of a row.
MAX_OBJECT_BYTES = 64 << 20
#: The last part of the key of an entry in the catalogue, and of the folder of its chunks.
ENTRY, CHUNKS = "array", "c"
#: Digits of the number of a chunk in its key.
DIGITS = 20

_TABLES: LiteralString = """
CREATE SCHEMA reblock;
CREATE SEQUENCE reblock.stamps;
CREATE TABLE reblock.objects (
    key text COLLATE "C" PRIMARY KEY,
    data bytea NOT NULL CHECK (octet_length(data) <= 67108864),
    stamp bigint NOT NULL DEFAULT nextval('reblock.stamps'),
    modified timestamptz NOT NULL DEFAULT clock_timestamp(),
    description jsonb
);
ALTER TABLE reblock.objects ALTER COLUMN data SET STORAGE EXTERNAL;
CREATE INDEX catalogue ON reblock.objects (key) WHERE description IS NOT NULL;
CREATE VIEW reblock.arrays AS SELECT
    left(key, -6) AS name,
    ARRAY(SELECT jsonb_array_elements_text(description -> 'shape')::bigint) AS dims,
    ARRAY(SELECT jsonb_array_elements_text(description -> 'lower_bounds')::bigint) AS lower_bounds,
    description ->> 'dtype' AS dtype,
    description -> 'chunks' AS chunks,
    description ->> 'chunk_order' AS chunk_order,
    ARRAY(SELECT jsonb_array_elements_text(description -> 'order')::int) AS axis_order,
    description ->> 'codec' AS codec,
    description -> 'axes' AS axes,
    description ->> 'attributes' AS attributes,
    description ->> 'digest' AS digest,
    modified
FROM reblock.objects WHERE description IS NOT NULL;
"""

STATEMENTS: LiteralString = _TABLES + SLICE
