/* SPDX-License-Identifier: Apache-2.0 */
/* rfc_kit.h: the rules of an RFC as tables of inputs, each of which a merge accepts or rejects. The
 * name of a case is the rule. A case that says "our choice" is one that the RFC leaves open, and a
 * case that says "we differ" one where Holdfast deliberately does something else; docs/formats.md
 * says why. */
#ifndef TESTS_RFC_KIT_H
#define TESTS_RFC_KIT_H

#include "base/view.h"
#include "holdfast.h"
#include "test.h"

struct rfc_case {
    const char *name;
    struct view input;
    const char *output; /* the bytes of the output; NULL: rejected */
    const char *why;    /* part of the reason for the rejection */
    /* If the input is one timestamp: its value, since 1970. */
    int64_t s;
    uint64_t atto;
};

/* A literal as a view; VIEW is not a constant. */
#define BYTES(literal)                     \
    {                                      \
        "" literal "", sizeof(literal) - 1 \
    }

#define ACCEPTED(name, input, output)        \
    {                                        \
        name, BYTES(input), output, "", 0, 0 \
    }
#define REJECTED(name, input, why)          \
    {                                       \
        name, BYTES(input), NULL, why, 0, 0 \
    }

/* Cases that are merged with the same options. */
struct rfc_group {
    struct hf_merge_options options;
    const struct rfc_case *cases;
    size_t count;
    bool timestamps; /* each input is one timestamp, which is also parsed on its own */
};

/* Merges the input of each case. An accepted input must give exactly these bytes. A rejected one
 * must fail for that reason and write nothing. One more test checks that each rule, which is the
 * start of a name up to its colon, has an accepting and a rejecting case. */
int rfc_run(const char *rfc, const struct rfc_group *groups, size_t group_count);

#endif
