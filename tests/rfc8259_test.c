/* SPDX-License-Identifier: Apache-2.0 */
/* rfc8259_test.c: every rule of RFC 8259 (JSON), as the reader of ndjson files follows it. A record
 * is a line, and its key is the member "k". */
#include "rfc_kit.h"

#include <stdlib.h>
#include <string.h>

#define RFC     "RFC 8259 section "
#define BAD     "is not one JSON object"
#define NOT_UTF "is not UTF-8"

/* A record with this text as a value, and the line that is written for it. */
#define VALUE(text)         "{\"k\":\"a\",\"v\":" text "}"
#define GOOD(name, text)    ACCEPTED(name, VALUE(text), VALUE(text) "\n")
#define WRONG(name, text)   REJECTED(name, VALUE(text), BAD)
#define SAME(name, record)  ACCEPTED(name, record, record "\n")
#define NO_JSON(name, text) REJECTED(name, text, BAD)

static const struct rfc_case cases[] = {
    /* ---- Section 2: the grammar ---- */
    SAME(RFC "2, white space: a space may stand around each structural character",
         " { \"k\" : \"a\" , \"v\" : [ 1 , 2 ] } "),
    SAME(RFC "2, white space: a tab may stand around each structural character",
         "\t{\t\"k\"\t:\t\"a\"\t,\t\"v\"\t:\t[\t1\t,\t2\t]\t}\t"),
    SAME(RFC "2, white space: a carriage return is white space", "{\r\"k\":\r\"a\"\r}"),
    NO_JSON(RFC "2, white space: a vertical tab is rejected", "{\v\"k\":\"a\"}"),
    NO_JSON(RFC "2, white space: a form feed is rejected", "{\f\"k\":\"a\"}"),
    NO_JSON(RFC "2, white space: a no-break space is rejected", "{\u00a0\"k\":\"a\"}"),
    NO_JSON(RFC "2, white space: a NUL is rejected", "{\0\"k\":\"a\"}"),
    NO_JSON(RFC
            "2, white space: we differ, a line feed ends the record and is rejected within it",
            "{\"k\":\"a\",\n\"v\":1}\n"),
    SAME(RFC "2, JSON text: an object is accepted", "{\"k\":\"a\"}"),
    NO_JSON(RFC "2, JSON text: we differ, an array has no key and is rejected",
            "[{\"k\":\"a\"}]"),
    NO_JSON(RFC "2, JSON text: we differ, a string has no key and is rejected", "\"k\""),
    NO_JSON(RFC "2, JSON text: we differ, a number has no key and is rejected", "1"),
    NO_JSON(RFC "2, JSON text: we differ, a literal has no key and is rejected", "true"),
    NO_JSON(RFC "2, JSON text: two values are rejected", "{\"k\":\"a\"} {\"k\":\"b\"}"),
    NO_JSON(RFC "2, JSON text: a value followed by text is rejected", "{\"k\":\"a\"}x"),
    ACCEPTED(RFC "2, JSON text: our choice, a blank line is no record",
             " \t\r\n{\"k\":\"a\"}\n\n", "{\"k\":\"a\"}\n"),

    /* ---- Section 3: values ---- */
    GOOD(RFC "3, literals: false is accepted", "false"),
    GOOD(RFC "3, literals: null is accepted", "null"),
    GOOD(RFC "3, literals: true is accepted", "true"),
    WRONG(RFC "3, literals: upper case is rejected", "True"),
    WRONG(RFC "3, literals: part of a literal is rejected", "nul"),
    WRONG(RFC "3, literals: a longer word is rejected", "nulls"),
    WRONG(RFC "3, literals: another word is rejected", "undefined"),
    WRONG(RFC "3, literals: a missing value is rejected", ""),
    GOOD(RFC "3, values: objects, arrays, numbers and strings are values",
         "[{\"x\":1},[2],3,\"4\",false,null,true]"),
    WRONG(RFC "3, values: a word without quotes is rejected", "abc"),

    /* ---- Section 4: objects ---- */
    GOOD(RFC "4, braces: an empty object is accepted", "{}"),
    NO_JSON(RFC "4, braces: a missing end is rejected", "{\"k\":\"a\""),
    NO_JSON(RFC "4, braces: a second end is rejected", "{\"k\":\"a\"}}"),
    NO_JSON(RFC "4, braces: the end of an array is rejected", "{\"k\":\"a\"]"),
    SAME(RFC "4, names: a name is a string, and may be empty", "{\"\":1,\"k\":\"a\"}"),
    NO_JSON(RFC "4, names: a name without quotes is rejected", "{k:\"a\"}"),
    NO_JSON(RFC "4, names: a name in single quotes is rejected", "{'k':\"a\"}"),
    NO_JSON(RFC "4, names: a number is no name", "{1:2,\"k\":\"a\"}"),
    SAME(RFC "4, colon: one colon separates name and value", "{\"k\":\"a\"}"),
    NO_JSON(RFC "4, colon: a missing colon is rejected", "{\"k\"\"a\"}"),
    NO_JSON(RFC "4, colon: two colons are rejected", "{\"k\"::\"a\"}"),
    NO_JSON(RFC "4, colon: an equals sign is rejected", "{\"k\"=\"a\"}"),
    SAME(RFC "4, comma: one comma separates members", "{\"k\":\"a\",\"v\":1}"),
    NO_JSON(RFC "4, comma: a missing comma is rejected", "{\"k\":\"a\"\"v\":1}"),
    NO_JSON(RFC "4, comma: a comma before the end is rejected", "{\"k\":\"a\",}"),
    NO_JSON(RFC "4, comma: a comma after the start is rejected", "{,\"k\":\"a\"}"),
    NO_JSON(RFC "4, comma: two commas are rejected", "{\"k\":\"a\",,\"v\":1}"),
    SAME(RFC "4, unique names: our choice, the last member of a name counts",
         "{\"k\":[],\"k\":\"a\"}"),
    REJECTED(RFC "4, unique names: our choice, an earlier member of a name does not count",
             "{\"k\":\"a\",\"k\":[]}", "has a key that is neither a string nor a number"),
    ACCEPTED(RFC "4, order of members: the order of members does not matter, and stays",
             "{\"v\":1,\"k\":\"a\"}\n{\"k\":\"b\",\"v\":1}\n",
             "{\"v\":1,\"k\":\"a\"}\n{\"k\":\"b\",\"v\":1}\n"),
    REJECTED(RFC "4, order of members: a member of a nested object is not one of the record",
             "{\"v\":{\"k\":\"a\"}}", "has no key field"),

    /* ---- Section 5: arrays ---- */
    GOOD(RFC "5, brackets: an empty array is accepted", "[]"),
    WRONG(RFC "5, brackets: a missing end is rejected", "[1"),
    WRONG(RFC "5, brackets: the end of an object is rejected", "[1}"),
    GOOD(RFC "5, elements: elements may be of different kinds", "[1,\"x\",null,[],{}]"),
    WRONG(RFC "5, elements: a member is no element", "[\"x\":1]"),
    GOOD(RFC "5, comma: one comma separates elements", "[1,2]"),
    WRONG(RFC "5, comma: a missing comma is rejected", "[1 2]"),
    WRONG(RFC "5, comma: a comma before the end is rejected", "[1,]"),
    WRONG(RFC "5, comma: a comma after the start is rejected", "[,1]"),
    WRONG(RFC "5, comma: a comma alone is rejected", "[,]"),

    /* ---- Section 6: numbers ---- */
    GOOD(RFC "6, integers: zero and other digits are accepted", "[0,7,10,1234567890]"),
    WRONG(RFC "6, integers: a leading zero is rejected", "01"),
    WRONG(RFC "6, integers: two zeros are rejected", "00"),
    WRONG(RFC "6, integers: hexadecimal digits are rejected", "0x1F"),
    WRONG(RFC "6, integers: digits of another script are rejected", "\u0663"),
    WRONG(RFC "6, integers: separators of thousands are rejected", "1_000"),
    GOOD(RFC "6, minus: a minus may stand before the digits", "[-1,-0,-0.5]"),
    WRONG(RFC "6, minus: a minus alone is rejected", "-"),
    WRONG(RFC "6, minus: two are rejected", "--1"),
    WRONG(RFC "6, minus: a plus is rejected", "+1"),
    WRONG(RFC "6, minus: a leading zero after it is rejected", "-01"),
    GOOD(RFC "6, fraction: digits after a point are accepted", "[1.5,0.0,-0.25]"),
    WRONG(RFC "6, fraction: a point without digits is rejected", "1."),
    WRONG(RFC "6, fraction: a point without digits before it is rejected", ".5"),
    WRONG(RFC "6, fraction: two points are rejected", "1.2.3"),
    WRONG(RFC "6, fraction: a comma is no point", "1,5"),
    GOOD(RFC "6, exponent: e and E, with or without a sign, are accepted",
         "[1e2,1E2,1e+2,1e-2,1.5e2,0e0,1e05]"),
    WRONG(RFC "6, exponent: an exponent without digits is rejected", "1e"),
    WRONG(RFC "6, exponent: a sign without digits is rejected", "1e+"),
    WRONG(RFC "6, exponent: a fraction in the exponent is rejected", "1e2.5"),
    WRONG(RFC "6, exponent: an exponent alone is rejected", "e2"),
    GOOD(RFC "6, range: our choice, numbers of any size and precision stay as they are",
         "[1e400,-1e-400,123456789012345678901234567890.123456789012345678901234567890]"),
    WRONG(RFC "6, range: Infinity is rejected", "Infinity"),
    WRONG(RFC "6, range: a negative Infinity is rejected", "-Infinity"),
    WRONG(RFC "6, range: NaN is rejected", "NaN"),

    /* ---- Section 7: strings ---- */
    GOOD(RFC "7, quotation marks: a string may be empty", "\"\""),
    WRONG(RFC "7, quotation marks: a string that does not end is rejected", "\"abc"),
    WRONG(RFC "7, quotation marks: single quotes are rejected", "'abc'"),
    WRONG(RFC "7, quotation marks: a quotation mark within is rejected", "\"a\"b\""),
    GOOD(RFC "7, unescaped: every other ASCII character may stand for itself, DEL too",
         "\" !#$%&'()*+,-./0129:;<=>?@AZ[]^_`az{|}~\x7f\""),
    GOOD(RFC "7, unescaped: characters beyond ASCII may stand for themselves",
         "\"\u00e9\u20ac\U0001f600\u2028\U0010ffff\""),
    WRONG(RFC "7, unescaped: a control character in a string is rejected", "\"a\x01\""),
    WRONG(RFC "7, unescaped: a tab in a string is rejected", "\"a\tb\""),
    WRONG(RFC "7, unescaped: a carriage return in a string is rejected", "\"a\rb\""),
    WRONG(RFC "7, unescaped: a line feed in a string is rejected", "\"a\nb\""),
    WRONG(RFC "7, unescaped: a NUL in a string is rejected", "\"a\0b\""),
    WRONG(RFC "7, unescaped: 0x1F in a string is rejected", "\"a\x1f\""),
    GOOD(RFC "7, escapes: the eight short escapes are accepted",
         "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\""),
    WRONG(RFC "7, escapes: another letter is rejected", "\"\\a\""),
    WRONG(RFC "7, escapes: an upper-case letter is rejected", "\"\\N\""),
    WRONG(RFC "7, escapes: a single quote is rejected", "\"\\'\""),
    WRONG(RFC "7, escapes: hexadecimal digits after x are rejected", "\"\\x41\""),
    WRONG(RFC "7, escapes: octal digits are rejected", "\"\\101\""),
    WRONG(RFC "7, escapes: a line feed after a reverse solidus is rejected", "\"\\\n\""),
    WRONG(RFC "7, escapes: a reverse solidus at the end is rejected", "\"\\"),
    GOOD(RFC "7, \\u: four hexadecimal digits of either case are accepted",
         "\"\\u0000\\u00e9\\u00E9\\uABCD\\uabcd\""),
    WRONG(RFC "7, \\u: three digits are rejected", "\"\\u12\""),
    WRONG(RFC "7, \\u: another letter among the digits is rejected", "\"\\u12G4\""),
    WRONG(RFC "7, \\u: an upper-case U is rejected", "\"\\U0041\""),
    WRONG(RFC "7, \\u: braces are rejected", "\"\\u{41}\""),
    SAME(RFC "7, surrogate pairs: a pair stands for one character",
         "{\"k\":\"\\ud83d\\uDE00\"}"),
    REJECTED(RFC "7, surrogate pairs: a pair in the wrong order is no key",
             "{\"k\":\"\\uDE00\\ud83d\"}", NOT_UTF),

    /* ---- Section 8: character encoding, Unicode, comparison ---- */
    GOOD(RFC "8.1, UTF-8: sequences of two, three and four bytes are accepted",
         "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\""),
    REJECTED(RFC "8.1, UTF-8: a byte that starts no sequence is rejected", VALUE("\"\xff\""),
             NOT_UTF),
    REJECTED(RFC "8.1, UTF-8: Latin-1 is rejected", VALUE("\"caf\xe9\""), NOT_UTF),
    REJECTED(RFC "8.1, UTF-8: a sequence that ends early is rejected", VALUE("\"\xe2\x82\""),
             NOT_UTF),
    REJECTED(RFC "8.1, UTF-8: an overlong form is rejected", VALUE("\"\xc0\xaf\""), NOT_UTF),
    REJECTED(RFC "8.1, UTF-8: an encoded surrogate is rejected", VALUE("\"\xed\xa0\x80\""),
             NOT_UTF),
    REJECTED(RFC "8.1, UTF-8: a character beyond U+10FFFF is rejected",
             VALUE("\"\xf4\x90\x80\x80\""), NOT_UTF),
    NO_JSON(RFC "8.1, UTF-8: UTF-16 is rejected", "{\0\"\0k\0\"\0:\0001\0}\0"),
    ACCEPTED(RFC
             "8.1, byte order mark: our choice, one at the start is ignored, and not written",
             "\xef\xbb\xbf{\"k\":\"a\"}\n", "{\"k\":\"a\"}\n"),
    REJECTED(RFC "8.1, byte order mark: one before a later record is rejected",
             "{\"k\":\"a\"}\n\xef\xbb\xbf{\"k\":\"b\"}\n", BAD),
    GOOD(RFC "8.2, unpaired surrogates: our choice, an escape outside the key is kept",
         "\"\\ud800\""),
    REJECTED(RFC "8.2, unpaired surrogates: our choice, one in the key is rejected",
             "{\"k\":\"\\ud800\"}", NOT_UTF),
    SAME(RFC "8.3, comparison: an escaped name equals the same name without escapes",
         "{\"\\u006b\":\"a\"}"),
    REJECTED(RFC "8.3, comparison: names of different case are different", "{\"K\":\"a\"}",
             "has no key field"),

    /* ---- Section 9: parsers; section 10: generators ---- */
    GOOD(RFC "9, extensions: text that looks like a comment is accepted in a string",
         "\"// and /* this */\""),
    WRONG(RFC "9, extensions: comments are rejected", "1/* no */"),
    NO_JSON(RFC "9, extensions: a line of comment is rejected", "// {\"k\":\"a\"}"),
    SAME(RFC "10, generators: a record is written byte for byte, and ends with a line feed",
         "{\"k\" :\"\\u0061\",\"v\": 1.0e0}"),
    NO_JSON(RFC "10, generators: nothing is repaired, so a record that is not JSON is rejected",
            "{\"k\":\"a\",\"v\":tru}"),
};

/* ---- Limits, which section 9 allows ---------------------------------------------------- */

#define DEPTH_MAX    512
#define RECORD_BYTES 4096

/* A record that is nested this deeply, itself included, with or without its LF. */
static char *nest(size_t levels, bool lf)
{
    static const char start[] = "{\"k\":\"a\",\"v\":";
    size_t at = sizeof start - 1, arrays = levels - 1;
    char *text = calloc(1, at + 2 * arrays + 4);
    assert_non_null(text);
    memcpy(text, start, at);
    memset(text + at, '[', arrays);
    memset(text + at + arrays, ']', arrays);
    memcpy(text + at + 2 * arrays, "}\n", lf ? 2 : 1);
    return text;
}

/* A record of this size, with or without its LF. */
static char *lengthen(size_t size, bool lf)
{
    char *text = calloc(1, size + 2);
    assert_non_null(text);
    memset(text, 'x', size);
    memcpy(text, "{\"k\":\"", 6);
    memcpy(text + size - 2, "\"}\n", lf ? 3 : 2);
    return text;
}

int main(void)
{
    char *texts[] = { nest(DEPTH_MAX, false),       nest(DEPTH_MAX, true),
                      nest(DEPTH_MAX + 1, false),   lengthen(RECORD_BYTES, false),
                      lengthen(RECORD_BYTES, true), lengthen(RECORD_BYTES + 1, false) };
    const struct rfc_case limits[] = {
        { RFC "9, depth: our choice, 512 levels are accepted", view_of(texts[0]), texts[1],
          "" },
        { RFC "9, depth: our choice, 513 levels are rejected", view_of(texts[2]), NULL,
          "is nested too deeply" },
        { RFC "9, size: our choice, a record of the maximum size is accepted",
          view_of(texts[3]), texts[4], "" },
        { RFC "9, size: our choice, a longer record is rejected", view_of(texts[5]), NULL,
          "exceeds the maximum record size" },
    };
    struct hf_merge_options options = HF_MERGE_OPTIONS;
    options.format = HF_MERGE_NDJSON;
    options.key = "k";
    options.record_bytes_max = RECORD_BYTES;
    const struct rfc_group groups[] = {
        { options, cases, sizeof cases / sizeof cases[0], false },
        { options, limits, sizeof limits / sizeof limits[0], false },
    };
    int failed = rfc_run("RFC 8259", groups, 2);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        free(texts[i]);
    return failed;
}
