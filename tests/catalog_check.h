/* SPDX-License-Identifier: Apache-2.0 */
/* catalog_check.h: the invariants of a catalog (compact/catalog/catalog.h). */
#ifndef TESTS_CATALOG_CHECK_H
#define TESTS_CATALOG_CHECK_H

#include "compact/catalog/catalog.h"

/* Aborts when one of them does not hold. */
void catalog_check(const struct catalog *catalog);

#endif
