/* SPDX-License-Identifier: Apache-2.0 */
/* xml.h: reads the listings of Azure. No network. Call it only after http_pool_open, which loads
 * the date parser. */
#ifndef STORE_AZURE_XML_H
#define STORE_AZURE_XML_H

#include "store/remote/page.h"

/* Fills in a page of names. Copies the marker of the next page, or an empty string after the last
 * page, to `marker`, which has room for `size` bytes. */
enum hf_status azure_xml_listing(struct view xml, struct remote_page *page, char *marker,
                                 size_t size, struct hf_error *error);

#endif
