/* Decoders: how the loop has units decoded by codecs that it does not know.
 *
 * A codec that can be called from C has an adapter, a file of its own that exports
 *
 *   reblock_NAME_decode   a DecodeUnit
 *   reblock_NAME_find     a FindPart, if the codec divides an object into parts that can be decoded one by one
 *
 * The codec's registration in `storage/codecs` names the adapter and gives its context: numbers that only the adapter
 * understands, such as the addresses of a library's functions. The loop passes them on.
 */
#ifndef REBLOCK_DECODER_H
#define REBLOCK_DECODER_H

#include <stdint.h>

/* Decode stored bytes to exactly `size` bytes; nonzero if that fails. `from` comes out of a file: hostile input. */
typedef int (*DecodeUnit)(const int64_t *context, const char *from, int64_t length, char *to, int64_t size);

/* Where part `number` of an object of `object_bytes` lies, by the table at the object's start, of table_bytes. Puts the
 * lead_bytes into `lead` that the part needs in front of its own bytes to be decoded; nonzero if that fails. */
typedef int (*FindPart)(const int64_t *context, const char *table, int64_t object_bytes, int64_t number,
                        int64_t *start, int64_t *length, char *lead);

typedef struct {
    DecodeUnit decode;
    FindPart find;                   /* NULL = rows say where units lie */
    int64_t table_bytes, lead_bytes; /* for `find` */
    int64_t planes;                  /* bytes of an element whose bytes come in planes; 0 = elements come whole */
    const int64_t *context;
} Decoder;

#define MAX_LEAD_BYTES 64
#define MAX_PLANES 64

#endif
