/* lease_info.h: a lease as it stands in a table, as a caller sees it. */
#ifndef API_LEASE_INFO_H
#define API_LEASE_INFO_H

#include "base/arena.h"
#include "lock/look.h"

/* Its texts are of the arena. `place` is that of one who waits, from 1; 0: it is a lease. False
 * without memory. */
bool lease_info_fill(struct arena *arena, const struct sight *sight, const struct lease *lease,
                     size_t place, struct hf_lease_info *ret_info);

/* Milliseconds, of which a little is not nothing. */
int64_t shown_ms(struct span span);

#endif
