/* SPDX-License-Identifier: Apache-2.0 */
/* xml.h: reads the XML replies of S3 that only S3 sends. No network. */
#ifndef STORE_S3_XML_H
#define STORE_S3_XML_H

#include "store/remote/page.h"

/* Fills in a page of names. `version` is the name of the element with an object's version: ETag, or
 * Generation at Google. */
enum hf_status s3_xml_listing(struct view xml, const char *version, struct remote_page *page,
                              struct hf_error *error);

/* Reads the reply to a multi-object delete in quiet mode. Calls `failed` for each key that was
 * not deleted. */
typedef void s3_delete_failed(void *argument, struct view key, struct view code,
                              struct view message);
enum hf_status s3_xml_deleted(struct view xml, s3_delete_failed *failed, void *argument,
                              struct hf_error *error);

#endif
