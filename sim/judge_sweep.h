/* judge_sweep.h: judges what clears away: the expiry index, and tables that are purged.
 *
 * The judge sees each write that the store applied, and is told when nodes begin to sweep. It fails
 * the run when
 *   - an entry of the index goes, a lease that was there all along while its sweeper ran is still
 *     active in the table, and no other entry tells of that table;
 *   - a table goes that has something active or in line, or was changed less than D ago (which is
 *     told by hours: where calendars tell them, that is not judged); or the epoch is not above its
 *     tokens; or the epoch falls;
 *   - a sweep looks at more than it may;
 *   - somebody has held a table for hours, all being well, and no entry of the hour tells of it;
 *   - in the end an entry of an hour that is over is left, or a lease whose table had an entry. */
#ifndef SIM_JUDGE_SWEEP_H
#define SIM_JUDGE_SWEEP_H

#include "sim/run.h"
#include "sweep/sweep.h"

struct judge_sweep;

struct judge_sweep_options {
    struct span late_bound; /* D, as well as hours tell it; 0: they do not */
    struct span hour;
    bool
        wild_calendars; /* nobody agrees on which hour it is: what rests on that is not judged */
};

struct judge_sweep *judge_sweep_new(struct run *run, const struct judge_sweep_options *options);
void judge_sweep_free(struct judge_sweep *judge);

/* A node begins to sweep; and has been told what came of it. */
void judge_sweep_begins(struct judge_sweep *judge, const struct node *node);
void judge_sweep_told(struct judge_sweep *judge, const struct node *node,
                      const struct sweep_options *options, enum hf_status status,
                      const struct sweep_report *report);

/* Nothing goes wrong, and the node has held a lease of this table for hours. */
void judge_sweep_held(struct judge_sweep *judge, struct node *node, struct view table);

/* After everything was swept, by this node: nothing that is over is left. */
void judge_sweep_end(struct judge_sweep *judge, struct node *node);

#endif
