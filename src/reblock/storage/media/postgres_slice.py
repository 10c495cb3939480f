"""The SQL function `reblock.reblock_slice`, by which any client of PostgreSQL reads a region of an array.

::

    SELECT position, value FROM reblock.reblock_slice('t2m', '{0,10}', '{2,13}');

The bounds are half-open and count from the lower bounds of the array. The function runs with the rights of its caller
and finds only names of the system. It visits the touched chunks, and in each the rows along the last axis. The
expression that turns bytes into a number is made once for each call, from whole numbers only.
"""

from __future__ import annotations

from typing import LiteralString

_DECLARATIONS: LiteralString = """
CREATE FUNCTION reblock.reblock_slice(name text, lower bigint[], upper bigint[])
RETURNS TABLE ("position" bigint[], value numeric)
LANGUAGE plpgsql STABLE STRICT SECURITY INVOKER
SET search_path = pg_catalog, pg_temp SET extra_float_digits = 1 AS $$
#variable_conflict use_variable
DECLARE
    top text := trim(BOTH '/' FROM name);
    about jsonb;  inline bytea;  data bytea;  fill bytea;
    dims bigint[];  base bigint[];  axis_order int[];  chunk_axes int[];
    ndim int;  kind text;  size int;  bits text := '0';  number text;  mantissa int;  bias int;
    starts jsonb := '[]';  one bigint[];  total numeric := 1;
    first bigint[] := '{}';  last bigint[] := '{}';  here bigint[];  spot bigint[];
    corner bigint[];  extent bigint[];  low bigint[];  high bigint[];  strides bigint[];
    rank numeric;  step bigint;  offset_ bigint;  d int;
BEGIN
"""

_CHECKS: LiteralString = """
    SELECT o.description, o.data INTO about, inline FROM reblock.objects AS o WHERE o.key = top || '/array';
    IF about IS NULL THEN
        RAISE EXCEPTION 'there is no array %', quote_literal(top) USING ERRCODE = 'undefined_object';
    END IF;
    dims := ARRAY(SELECT jsonb_array_elements_text(about -> 'shape')::bigint);
    base := ARRAY(SELECT jsonb_array_elements_text(about -> 'lower_bounds')::bigint);
    axis_order := ARRAY(SELECT jsonb_array_elements_text(about -> 'order')::int);
    ndim := cardinality(dims);
    kind := substr(about ->> 'dtype', 2, 1);
    size := CASE WHEN kind IN ('b', 'i', 'u', 'f') THEN substr(about ->> 'dtype', 3)::int END;
    IF about ->> 'codec' <> '' THEN
        RAISE EXCEPTION '% is compressed (%): read it with reblock', quote_literal(top), about ->> 'codec'
            USING ERRCODE = 'feature_not_supported';
    ELSIF size IS NULL OR size NOT IN (1, 2, 4, 8) THEN
        RAISE EXCEPTION 'elements of type % are not supported: bool, integers and floats are', about ->> 'dtype'
            USING ERRCODE = 'feature_not_supported';
    ELSIF about ->> 'chunk_order' ~ '[a-z]' THEN
        RAISE EXCEPTION 'chunks in % order are not supported: read them with reblock', about ->> 'chunk_order'
            USING ERRCODE = 'feature_not_supported';
    ELSIF cardinality(lower) <> ndim OR cardinality(upper) <> ndim THEN
        RAISE EXCEPTION 'the array has % axes, lower has % and upper has %', ndim, cardinality(lower),
            cardinality(upper) USING ERRCODE = 'array_subscript_error';
    END IF;
    FOR d IN 1 .. ndim LOOP
        IF (lower[d] >= base[d] AND lower[d] <= upper[d] AND upper[d] <= base[d] + dims[d]) IS NOT TRUE THEN
            RAISE EXCEPTION 'axis %: %:% is not inside %:%', d - 1, lower[d], upper[d], base[d], base[d] + dims[d]
                USING ERRCODE = 'array_subscript_error';
        END IF;
        total := total * (upper[d] - lower[d]);
    END LOOP;
    IF total > 1000000 THEN
        RAISE EXCEPTION '% elements are more than the limit of 1000000', total
            USING ERRCODE = 'program_limit_exceeded';
    ELSIF total = 0 THEN
        RETURN;
    END IF;
"""

_NUMBERS: LiteralString = """
    -- The bits of an element at byte offset o of the bytes $1, and its number.
    FOR d IN 0 .. size - 1 LOOP
        bits := bits || format(' | (get_byte($1, (o + %s)::int)::bigint << %s)',
            CASE WHEN left(about ->> 'dtype', 1) = '>' THEN size - 1 - d ELSE d END, 8 * d);
    END LOOP;
    IF kind = 'f' THEN
        mantissa := CASE size WHEN 2 THEN 10 WHEN 4 THEN 23 ELSE 52 END;
        bias := CASE size WHEN 2 THEN 15 WHEN 4 THEN 127 ELSE 1023 END;
        number := format('CASE WHEN e < %2$s AND e > 0 THEN (m + %3$s)::float8 * power(2::float8, e - %4$s)'
            ' WHEN e = 0 THEN m::float8 * power(2::float8, 1 - %4$s)'
            ' WHEN m = 0 THEN ''Infinity''::float8 ELSE ''NaN''::float8 END * s',
            0, 2 * bias + 1, 1::bigint << mantissa, bias + mantissa);
        number := format('(SELECT (%s)::text::numeric FROM (SELECT b & %s AS m, (b >> %s) & %s AS e,'
            ' 1 - 2 * ((b >> %s) & 1) AS s) AS parts)',
            number, (1::bigint << mantissa) - 1, mantissa, 2 * bias + 1, 8 * size - 1);
    ELSIF kind = 'i' THEN
        number := format('((b << %1$s) >> %1$s)::numeric', 64 - 8 * size);
    ELSE
        number := 'b::numeric + CASE WHEN b < 0 THEN 18446744073709551616 ELSE 0 END';
    END IF;
    number := format('SELECT $2 || CASE WHEN $6 THEN ARRAY[$3 + i] ELSE ARRAY[]::bigint[] END, %s'
        ' FROM generate_series(0, $4 - 1) AS i, LATERAL (SELECT $5 + i * $7 AS o) AS p,'
        ' LATERAL (SELECT %s AS b) AS q', number, bits);
"""

_CHUNKS: LiteralString = """
    chunk_axes := CASE WHEN coalesce(about ->> 'chunk_order', '') = ''
        THEN ARRAY(SELECT generate_series(0, ndim - 1)) ELSE string_to_array(about ->> 'chunk_order', ',')::int[] END;
    -- Where the chunks of each axis begin, as far as the region goes, and the first and the last that it touches.
    FOR d IN 1 .. ndim LOOP
        IF jsonb_typeof(about -> 'chunks' -> (d - 1)) = 'array' THEN
            one := ARRAY(SELECT sum(t.length::bigint) OVER (ORDER BY t.i) - t.length::bigint
                FROM jsonb_array_elements_text(about -> 'chunks' -> (d - 1)) WITH ORDINALITY AS t (length, i));
            first := first || (SELECT count(*) - 1 FROM unnest(one) AS b WHERE b <= lower[d] - base[d]);
            last := last || (SELECT count(*) - 1 FROM unnest(one) AS b WHERE b < upper[d] - base[d]);
            starts := starts || jsonb_build_array(to_jsonb(one || dims[d]));
        ELSE
            step := (about -> 'chunks' ->> (d - 1))::bigint;
            first := first || (lower[d] - base[d]) / step;
            last := last || (upper[d] - base[d] - 1) / step;
            starts := starts || jsonb_build_array(to_jsonb(step));
        END IF;
    END LOOP;
    here := first;
    LOOP
        corner := '{}';  extent := '{}';  low := '{}';  high := '{}';  rank := 0;
        FOR d IN 1 .. ndim LOOP
            IF jsonb_typeof(starts -> (d - 1)) = 'array' THEN
                corner := corner || (starts -> (d - 1) ->> here[d]::int)::bigint;
                extent := extent || (starts -> (d - 1) ->> (here[d] + 1)::int)::bigint - corner[d];
            ELSE
                step := (starts ->> (d - 1))::bigint;
                corner := corner || here[d] * step;
                extent := extent || least(step, dims[d] - corner[d]);
            END IF;
            low := low || greatest(corner[d], lower[d] - base[d]);
            high := high || least(corner[d] + extent[d], upper[d] - base[d]);
        END LOOP;
        FOR d IN 1 .. ndim LOOP
            step := chunk_axes[d] + 1;
            rank := rank * CASE WHEN jsonb_typeof(starts -> (step - 1)::int) = 'array'
                THEN jsonb_array_length(starts -> (step - 1)::int) - 1
                ELSE (dims[step] + (starts ->> (step - 1)::int)::bigint - 1) / (starts ->> (step - 1)::int)::bigint
                END + here[step];
        END LOOP;
        data := inline;
        IF NOT (about ->> 'inline')::boolean THEN
            SELECT o.data INTO data FROM reblock.objects AS o WHERE o.key = top || '/c/' || lpad(rank::text, 20, '0');
        END IF;
        strides := array_fill(0::bigint, ARRAY[ndim]);
        step := size;
        FOR d IN REVERSE ndim .. 1 LOOP
            strides[axis_order[d] + 1] := step;
            step := step * extent[axis_order[d] + 1];
        END LOOP;
"""

_ROWS: LiteralString = """
        IF data IS NULL AND (about ->> 'sparse')::boolean THEN
            fill := decode(coalesce(about ->> 'fill_value', repeat('00', size)), 'hex');
            data := fill;
            strides := array_fill(0::bigint, ARRAY[ndim]);
        ELSIF octet_length(data) IS DISTINCT FROM step THEN
            RAISE EXCEPTION 'chunk % of % has % bytes instead of %', rank, quote_literal(top),
                coalesce(octet_length(data), 0), step USING ERRCODE = 'data_corrupted';
        END IF;
        spot := low;
        LOOP
            offset_ := 0;
            FOR d IN 1 .. ndim LOOP
                offset_ := offset_ + (spot[d] - corner[d]) * strides[d];
            END LOOP;
            RETURN QUERY EXECUTE number USING data,
                ARRAY(SELECT s + b FROM unnest(spot, base) WITH ORDINALITY AS t (s, b, i) WHERE i < ndim ORDER BY i),
                coalesce(spot[ndim] + base[ndim], 0), coalesce(high[ndim] - spot[ndim], 1), offset_, ndim > 0,
                coalesce(strides[ndim], 0);
            d := ndim - 1;
            WHILE d > 0 LOOP
                spot[d] := spot[d] + 1;
                EXIT WHEN spot[d] < high[d];
                spot[d] := low[d];
                d := d - 1;
            END LOOP;
            EXIT WHEN d <= 0;
        END LOOP;
        d := ndim;
        WHILE d > 0 LOOP
            here[d] := here[d] + 1;
            EXIT WHEN here[d] <= last[d];
            here[d] := first[d];
            d := d - 1;
        END LOOP;
        EXIT WHEN d <= 0;
    END LOOP;
END
$$;
"""

#: The statement that makes the function.
SLICE: LiteralString = _DECLARATIONS + _CHECKS + _NUMBERS + _CHUNKS + _ROWS
