/* SPDX-License-Identifier: Apache-2.0 */
/* rfc4180_test.c: every rule of RFC 4180 (CSV), as the reader of csv files follows it. Inputs have
 * a header, and the key is the field "k". */
#include "rfc_kit.h"

#define RFC     "RFC 4180 section "
#define COLUMNS "has a different number of fields than the header"
#define QUOTES  "has a misplaced or unclosed quote"

/* A file with the header k,v and these bytes after it; what is written for it. */
#define HEAD                      "k,v\r\n"
#define WRITTEN                   "k,v\n"
#define GOOD(name, input, output) ACCEPTED(name, HEAD input, WRITTEN output)
#define WRONG(name, input, why)   REJECTED(name, HEAD input, why)

static const struct rfc_case cases[] = {
    /* ---- Section 2, rule 1: each record is a line, which ends with CRLF ---- */
    GOOD(RFC "2 rule 1: CRLF ends a record", "a,1\r\nb,2\r\n", "a,1\nb,2\n"),
    GOOD(RFC "2 rule 1: we differ, LF alone ends a record too, and is what we write",
         "a,1\nb,2\n", "a,1\nb,2\n"),
    GOOD(RFC "2 rule 1: we differ, CR alone is data", "a,1\r2\r\n", "a,1\r2\n"),
    GOOD(RFC "2 rule 1: we differ, an empty line is no record", "\r\na,1\r\n\r\n\n", "a,1\n"),
    WRONG(RFC "2 rule 1: a record that goes on in the next line is rejected", "a,\r\n1\r\n",
          COLUMNS),

    /* ---- Rule 2: the last record ---- */
    GOOD(RFC "2 rule 2: the last record may end with a line break", "a,1\r\n", "a,1\n"),
    GOOD(RFC "2 rule 2: the last record need not end with a line break", "a,1", "a,1\n"),
    GOOD(RFC "2 rule 2: a quoted field may be the end of the file", "a,\"1\"", "a,\"1\"\n"),
    WRONG(RFC "2 rule 2: a last record without its last field is rejected", "a,1\r\nb",
          COLUMNS),
    WRONG(RFC "2 rule 2: a last record whose quote is open is rejected", "a,\"1", QUOTES),

    /* ---- Rule 3: the header ---- */
    ACCEPTED(RFC "2 rule 3: a header has the same form as a record", "\"k\",v\r\na,1\r\n",
             "\"k\",v\na,1\n"),
    ACCEPTED(RFC "2 rule 3: the header names the fields in any order", "v,k\r\n1,a\r\n0,b\r\n",
             "v,k\n1,a\n0,b\n"),
    REJECTED(RFC "2 rule 3: a header with a misplaced quote is rejected", "k,v\"\r\na,1\r\n",
             "the header " QUOTES),
    REJECTED(RFC "2 rule 3: a header without the key is rejected", "x,v\r\na,1\r\n",
             "the header has no field 'k'"),
    REJECTED(RFC "2 rule 3: a header with the key twice is rejected", "k,k\r\na,1\r\n",
             "the header has 2 fields named"),

    /* ---- Rule 4: fields ---- */
    GOOD(RFC "2 rule 4, number of fields: as many as the header", "a,1\r\nb,2\r\n",
         "a,1\nb,2\n"),
    WRONG(RFC "2 rule 4, number of fields: fewer are rejected", "a\r\n", COLUMNS),
    WRONG(RFC "2 rule 4, number of fields: more are rejected", "a,1,2\r\n", COLUMNS),
    GOOD(RFC "2 rule 4, spaces: spaces are part of a field", " a , 1 \r\n", " a , 1 \n"),
    WRONG(RFC "2 rule 4, spaces: a space before a quote makes the quote misplaced",
          "a, \"1\"\r\n", QUOTES),
    WRONG(RFC "2 rule 4, spaces: a space after a closing quote is rejected", "a,\"1\" \r\n",
          QUOTES),
    GOOD(RFC "2 rule 4, last comma: an empty last field is a field", "a,\r\n", "a,\n"),
    WRONG(RFC "2 rule 4, last comma: a comma after the last field is rejected", "a,1,\r\n",
          COLUMNS),
    GOOD(RFC "2 rule 4, empty fields: fields may be empty", ",\r\na,\r\n", ",\na,\n"),
    WRONG(RFC "2 rule 4, empty fields: a comma too many is rejected", ",,\r\n", COLUMNS),

    /* ---- Rule 5: quotes around fields ---- */
    GOOD(RFC "2 rule 5: fields may be in quotes", "\"a\",\"1\"\r\n", "\"a\",\"1\"\n"),
    GOOD(RFC "2 rule 5: fields may be without quotes", "a,1\r\n", "a,1\n"),
    GOOD(RFC "2 rule 5: an empty field may be in quotes", "a,\"\"\r\n", "a,\"\"\n"),
    WRONG(RFC "2 rule 5: a quote in a field without quotes is rejected", "a,1\"2\r\n", QUOTES),
    WRONG(RFC "2 rule 5: a quote at the end of a field without quotes is rejected", "a,1\"\r\n",
          QUOTES),
    WRONG(RFC "2 rule 5: text after a closing quote is rejected", "a,\"1\"2\r\n", QUOTES),
    WRONG(RFC "2 rule 5: single quotes do not enclose a comma", "a,'1,2'\r\n", COLUMNS),

    /* ---- Rule 6: line breaks, quotes and commas in fields ---- */
    GOOD(RFC "2 rule 6: a CRLF in quotes is data", "a,\"1\r\n2\"\r\n", "a,\"1\r\n2\"\n"),
    GOOD(RFC "2 rule 6: an LF in quotes is data", "a,\"1\n2\"\r\n", "a,\"1\n2\"\n"),
    GOOD(RFC "2 rule 6: a CR in quotes is data", "a,\"1\r2\"\r\n", "a,\"1\r2\"\n"),
    GOOD(RFC "2 rule 6: a comma in quotes is data", "a,\"1,2\"\r\n", "a,\"1,2\"\n"),
    GOOD(RFC "2 rule 6: an empty line in quotes is data", "a,\"1\n\n2\"\r\n", "a,\"1\n\n2\"\n"),
    WRONG(RFC "2 rule 6: a line break without quotes ends the record", "a,1\n2\r\n", COLUMNS),
    WRONG(RFC "2 rule 6: a comma without quotes ends the field", "a,1,2\r\n", COLUMNS),
    WRONG(RFC "2 rule 6: we differ, a quote that is never closed spoils only its line",
          "a,\"1\r\nb,2\r\n", QUOTES),

    /* ---- Rule 7: quotes in quotes ---- */
    GOOD(RFC "2 rule 7: a doubled quote is one quote", "a,\"1\"\"2\"\r\n", "a,\"1\"\"2\"\n"),
    GOOD(RFC "2 rule 7: a field may consist of a doubled quote", "a,\"\"\"\"\r\n",
         "a,\"\"\"\"\n"),
    GOOD(RFC "2 rule 7: doubled quotes may be at the start and the end", "a,\"\"\"1\"\"\"\r\n",
         "a,\"\"\"1\"\"\"\n"),
    WRONG(RFC "2 rule 7: a quote that is not doubled is rejected", "a,\"1\"2\"\r\n", QUOTES),
    WRONG(RFC "2 rule 7: three quotes leave the field open", "a,\"\"\"\r\n", QUOTES),
    WRONG(RFC "2 rule 7: a reverse solidus escapes nothing", "a,\"1\\\"2\"\r\n", QUOTES),

    /* ---- The grammar: which bytes a field may hold ---- */
    GOOD(RFC "2 grammar, TEXTDATA: printable ASCII is data",
         "a,!#$%&'()*+-./:;<=>?@[\\]^_`{|}~\n", "a,!#$%&'()*+-./:;<=>?@[\\]^_`{|}~\n"),
    GOOD(RFC "2 grammar, TEXTDATA: we differ, control characters and a tab are data",
         "a,\x01\t\x1f\x7f\n", "a,\x01\t\x1f\x7f\n"),
    GOOD(RFC "2 grammar, TEXTDATA: we differ, bytes beyond ASCII are data, in any encoding",
         "a,\u00e9\U0001f600\xff\n", "a,\u00e9\U0001f600\xff\n"),
    WRONG(RFC "2 grammar, TEXTDATA: a quote is not among them", "a,\"\n", QUOTES),
    GOOD(RFC "2 grammar, COMMA: a comma separates fields", "a,1\n", "a,1\n"),
    WRONG(RFC "2 grammar, COMMA: a semicolon does not", "a;1\n", COLUMNS),
    WRONG(RFC "2 grammar, COMMA: a tab does not", "a\t1\n", COLUMNS),

    /* ---- Section 3: the media type ---- */
    ACCEPTED(RFC "3, charset: our choice, a byte order mark is ignored and not written",
             "\xef\xbb\xbfk,v\r\na,1\r\n", "k,v\na,1\n"),
    REJECTED(RFC "3, charset: UTF-16 is rejected", "k\0,\0v\0\r\0\n\0a\0,\0001\0\r\0\n\0",
             "the header has no field 'k'"),
};

/* ---- Section 3, without a header; and tsv ---------------------------------------------- */

static const struct rfc_case headless[] = {
    ACCEPTED(RFC "3, header absent: the first record is data", "a,1\r\nb,2\r\n", "a,1\nb,2\n"),
    ACCEPTED(RFC "3, header absent: our choice, records may differ in the number of fields",
             "a,1,2\r\nb\r\n", "a,1,2\nb\n"),
    REJECTED(RFC "3, header absent: the first record is checked like any other",
             "a,1\"\r\nb,2\r\n", QUOTES),
};

static const struct rfc_case tabs[] = {
    ACCEPTED("RFC 4180 for tsv, rule 4: a tab separates fields, and a comma does not",
             "k\tv\r\na\t1,2\r\n", "k\tv\na\t1,2\n"),
    REJECTED("RFC 4180 for tsv, rule 4: a field too many is rejected", "k\tv\r\na\t1\t2\r\n",
             COLUMNS),
    ACCEPTED("RFC 4180 for tsv, rule 6: a tab in quotes is data", "k\tv\r\na\t\"1\t2\"\r\n",
             "k\tv\na\t\"1\t2\"\n"),
    REJECTED("RFC 4180 for tsv, rule 6: a quote that is not closed is rejected",
             "k\tv\r\na\t\"1\r\n", QUOTES),
};

#define COUNT(array) (sizeof(array) / sizeof *(array))

int main(void)
{
    struct hf_merge_options csv = HF_MERGE_OPTIONS;
    csv.format = HF_MERGE_CSV;
    csv.key = "k";
    struct hf_merge_options tsv = csv, no_header = csv;
    tsv.format = HF_MERGE_TSV;
    no_header.headless = true;
    no_header.key = "1";
    const struct rfc_group groups[] = {
        { csv, cases, COUNT(cases), false },
        { no_header, headless, COUNT(headless), false },
        { tsv, tabs, COUNT(tabs), false },
    };
    return rfc_run("RFC 4180", groups, COUNT(groups));
}
