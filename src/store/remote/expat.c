/* SPDX-License-Identifier: Apache-2.0 */
/* expat.c: expat, loaded when the first XML reply of a store on the network is read. The functions
 * that we call are defined here under their own names and pass each call on (see curl.c). All of
 * them but XML_ParserCreate may be called only after XML_ParserCreate has succeeded. */
#include "file/library.h"

#include <assert.h>
#include <expat.h>

struct functions {
    XML_Parser (*create)(const XML_Char *encoding);
    void (*free)(XML_Parser parser);
    void (*set_user_data)(XML_Parser parser, void *data);
    void (*set_element_handler)(XML_Parser parser, XML_StartElementHandler start,
                                XML_EndElementHandler end);
    void (*set_text_handler)(XML_Parser parser, XML_CharacterDataHandler handler);
    void (*set_doctype_handler)(XML_Parser parser, XML_StartDoctypeDeclHandler handler);
    enum XML_Status (*parse)(XML_Parser parser, const char *text, int size, int is_final);
    enum XML_Status (*stop)(XML_Parser parser, XML_Bool resumable);
    enum XML_Error (*error_code)(XML_Parser parser);
    const XML_LChar *(*error_string)(enum XML_Error code);
};

/* In the order of struct functions. */
static const char *const symbols[] = {
    "XML_ParserCreate",
    "XML_ParserFree",
    "XML_SetUserData",
    "XML_SetElementHandler",
    "XML_SetCharacterDataHandler",
    "XML_SetStartDoctypeDeclHandler",
    "XML_Parse",
    "XML_StopParser",
    "XML_GetErrorCode",
    "XML_ErrorString",
};
static_assert(sizeof(struct functions) == sizeof symbols, "a symbol for each function");

static struct library library = { "libexpat.so.1", symbols, sizeof symbols / sizeof symbols[0],
                                  NULL };

static const struct functions *expat_functions(void)
{
    return library_load(&library);
}

XML_Parser XML_ParserCreate(const XML_Char *encoding)
{
    return expat_functions() ? expat_functions()->create(encoding) : NULL;
}

void XML_ParserFree(XML_Parser parser)
{
    expat_functions()->free(parser);
}

void XML_SetUserData(XML_Parser parser, void *data)
{
    expat_functions()->set_user_data(parser, data);
}

void XML_SetElementHandler(XML_Parser parser, XML_StartElementHandler start,
                           XML_EndElementHandler end)
{
    expat_functions()->set_element_handler(parser, start, end);
}

void XML_SetCharacterDataHandler(XML_Parser parser, XML_CharacterDataHandler handler)
{
    expat_functions()->set_text_handler(parser, handler);
}

void XML_SetStartDoctypeDeclHandler(XML_Parser parser, XML_StartDoctypeDeclHandler handler)
{
    expat_functions()->set_doctype_handler(parser, handler);
}

enum XML_Status XML_Parse(XML_Parser parser, const char *text, int size, int is_final)
{
    return expat_functions()->parse(parser, text, size, is_final);
}

enum XML_Status XML_StopParser(XML_Parser parser, XML_Bool resumable)
{
    return expat_functions()->stop(parser, resumable);
}

enum XML_Error XML_GetErrorCode(XML_Parser parser)
{
    return expat_functions()->error_code(parser);
}

const XML_LChar *XML_ErrorString(enum XML_Error code)
{
    return expat_functions()->error_string(code);
}
