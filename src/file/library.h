/* SPDX-License-Identifier: Apache-2.0 */
/* library.h: a shared library that is loaded when it is first needed, because most programs that
 * use Holdfast never need it (docs/decisions/0007). The program of `make tarball` contains it
 * instead (tools/bundle). */
#ifndef FILE_LIBRARY_H
#define FILE_LIBRARY_H

#include <stddef.h>

struct library {
    const char *file;           /* "libcurl.so.4" */
    const char *const *symbols; /* the functions that we call, in table order */
    size_t count;
    void **_Atomic functions; /* set once, for the life of the process */
};

/* The table of functions: one pointer per symbol, to be cast to a struct of function pointers.
 * NULL if the library or one of its functions is missing, or memory runs out. */
const void *library_load(struct library *library);

#endif
