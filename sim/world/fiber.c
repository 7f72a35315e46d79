/* SPDX-License-Identifier: Apache-2.0 */
/* fiber.c: fibers on ucontext.
 *
 * A fiber is entered once through ucontext. Later switches use _setjmp and _longjmp, which do not
 * save the signal mask and therefore need no system call; such a switch takes a twentieth of the
 * time. Sanitizers do not follow these jumps, so sanitizer builds always use swapcontext, and
 * announce each switch.
 *
 * The fiber's own record is at the top of its mapping, above the stack, where the stack cannot
 * overwrite it: [guard page | stack, growing down | struct fiber].
 *
 * A guard page divides a mapping in two, and Linux allows a process 65,530 of them. So beyond
 * GUARDED_MAX stacks, a stack has a pattern in its lowest bytes in place of the guard page, and an
 * overflow is noticed when the fiber gives way. */
#include "sim/world/fiber.h"

#include "base/check.h"
#include "base/sanitizer.h"

#include <setjmp.h>
#include <stdint.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#if WITH_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if WITH_TSAN
#include <sanitizer/tsan_interface.h>
#endif

/* GCC's builtin setjmp saves three registers and leaves the others to the surrounding function. The
 * libc version also searches for cleanup handlers, and there are none here. */
#if defined(__GNUC__) && !defined(__clang__)
typedef void *place_buf[5];
#define SAVE_PLACE(place)  __builtin_setjmp(place)
#define GO_TO_PLACE(place) __builtin_longjmp(place, 1)
#else
typedef jmp_buf place_buf;
#define SAVE_PLACE(place)  _setjmp(place)
#define GO_TO_PLACE(place) _longjmp(place, 1)
#endif

#define GUARDED_MAX 20000
#define PATTERN     UINT64_C(0x6669626572206967)

struct fiber {
    struct fiber *next_free;
    void (*run)(void *);
    void *argument;
    char *stack; /* the lowest byte above the guard page */
    size_t stack_size;
    bool guarded;
    bool entered;
    bool ended;
    ucontext_t context;
    place_buf place;
    void *sanitizer_stack; /* ASan's fake stack, or TSan's fiber */
};

static struct fiber *running;
static struct {
    ucontext_t context;
    place_buf place;
    const void *stack;
    size_t stack_size;
    void *sanitizer_stack;
} main_stack;

static struct {
    struct fiber *free;
    size_t mapped;
} pool;

/* ---- Announcements to sanitizers ----------------------------------------------------- */

#if WITH_ASAN

static void announce_fiber(struct fiber *fiber)
{
    __sanitizer_start_switch_fiber(&main_stack.sanitizer_stack, fiber->stack,
                                   fiber->stack_size);
}

/* A fiber that has ended releases its fake stack. */
static void announce_main(struct fiber *fiber)
{
    __sanitizer_start_switch_fiber(fiber->ended ? NULL : &fiber->sanitizer_stack,
                                   main_stack.stack, main_stack.stack_size);
}

static void arrived_in_fiber(struct fiber *fiber)
{
    __sanitizer_finish_switch_fiber(fiber->sanitizer_stack, &main_stack.stack,
                                    &main_stack.stack_size);
}

static void arrived_in_main(void)
{
    __sanitizer_finish_switch_fiber(main_stack.sanitizer_stack, NULL, NULL);
}

static void sanitizer_begin(struct fiber *fiber)
{
    fiber->sanitizer_stack = NULL;
}

/* A fiber that was ended early leaves a fake stack and red zones behind. Only the fiber itself may
 * release the fake stack, so this function briefly pretends to be that fiber. */
static void sanitizer_end(struct fiber *fiber)
{
    if (fiber->entered && !fiber->ended) {
        announce_fiber(fiber);
        __sanitizer_finish_switch_fiber(fiber->sanitizer_stack, NULL, NULL);
        __sanitizer_start_switch_fiber(NULL, main_stack.stack, main_stack.stack_size);
        arrived_in_main();
    }
    ASAN_UNPOISON_MEMORY_REGION(fiber->stack, fiber->stack_size);
}

#elif WITH_TSAN

static void announce_fiber(struct fiber *fiber)
{
    main_stack.sanitizer_stack = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(fiber->sanitizer_stack, 0);
}

static void announce_main(struct fiber *fiber)
{
    (void)fiber;
    __tsan_switch_to_fiber(main_stack.sanitizer_stack, 0);
}

static void arrived_in_fiber(struct fiber *fiber)
{
    (void)fiber;
}

static void arrived_in_main(void)
{
}

static void sanitizer_begin(struct fiber *fiber)
{
    fiber->sanitizer_stack = __tsan_create_fiber(0);
}

static void sanitizer_end(struct fiber *fiber)
{
    __tsan_destroy_fiber(fiber->sanitizer_stack);
}

#endif

/* ---- Switching ----------------------------------------------------------------------- */

#if WITH_ASAN || WITH_TSAN

static void enter(struct fiber *fiber)
{
    announce_fiber(fiber);
    check(swapcontext(&main_stack.context, &fiber->context) == 0);
    arrived_in_main();
}

static void switch_to_fiber(struct fiber *fiber)
{
    enter(fiber);
}

static void switch_to_main(struct fiber *fiber)
{
    announce_main(fiber);
    check(swapcontext(&fiber->context, &main_stack.context) == 0);
    arrived_in_fiber(fiber);
}

#else

static void arrived_in_fiber(struct fiber *fiber)
{
    (void)fiber;
}

static void sanitizer_begin(struct fiber *fiber)
{
    (void)fiber;
}

static void sanitizer_end(struct fiber *fiber)
{
    (void)fiber;
}

/* GCC requires this to be a different function from the one that saves the context. */
__attribute__((noinline, noreturn)) static void go_to(place_buf place)
{
    GO_TO_PLACE(place);
}

__attribute__((noinline)) static void enter(struct fiber *fiber)
{
    if (SAVE_PLACE(main_stack.place) == 0)
        setcontext(&fiber->context);
}

__attribute__((noinline)) static void switch_to_fiber(struct fiber *fiber)
{
    if (SAVE_PLACE(main_stack.place) == 0)
        go_to(fiber->place);
}

__attribute__((noinline)) static void switch_to_main(struct fiber *fiber)
{
    if (SAVE_PLACE(fiber->place) == 0)
        go_to(main_stack.place);
}

#endif

static void first_frame(void)
{
    struct fiber *fiber = running;
    arrived_in_fiber(fiber);
    fiber->run(fiber->argument);
    fiber->ended = true;
    switch_to_main(fiber);
    check_unreachable();
}

bool fiber_resume(struct fiber *fiber)
{
    check(!running && !fiber->ended);
    running = fiber;
    bool entered = fiber->entered;
    fiber->entered = true;
    if (entered)
        switch_to_fiber(fiber);
    else
        enter(fiber);
    running = NULL;
    check(fiber->guarded || *(const uint64_t *)(const void *)fiber->stack == PATTERN);
    return !fiber->ended;
}

void fiber_give_way(void)
{
    check(running);
    switch_to_main(running);
}

bool fiber_inside(void)
{
    return running != NULL;
}

/* ---- Stacks -------------------------------------------------------------------------- */

static size_t guard_size(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

/* The mapping is larger than the guard page and the stack, to make room for the record. */
static size_t record_size(void)
{
    size_t page = guard_size();
    return (sizeof(struct fiber) + page - 1) / page * page;
}

static struct fiber *map_stack(void)
{
    size_t guard = guard_size();
    size_t size = guard + FIBER_STACK_BYTES + record_size();
    char *mapping = mmap(NULL, size, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (mapping == MAP_FAILED)
        return NULL;
    bool guarded = pool.mapped < GUARDED_MAX;
    if (guarded && mprotect(mapping, guard, PROT_NONE) != 0) {
        munmap(mapping, size);
        return NULL;
    }
    struct fiber *fiber = (struct fiber *)(void *)(mapping + guard + FIBER_STACK_BYTES);
    fiber->stack = mapping + guard;
    fiber->stack_size = FIBER_STACK_BYTES;
    fiber->guarded = guarded;
    if (!guarded)
        *(uint64_t *)(void *)fiber->stack = PATTERN;
    pool.mapped++;
    return fiber;
}

/* This is a separate function, because the compiler assumes that getcontext returns twice, like
 * setjmp. */
__attribute__((noinline)) static void prepare_context(struct fiber *fiber)
{
    check(getcontext(&fiber->context) == 0);
    fiber->context.uc_stack.ss_sp = fiber->stack;
    fiber->context.uc_stack.ss_size = fiber->stack_size;
    fiber->context.uc_link = NULL;
    makecontext(&fiber->context, first_frame, 0);
    /* The size is no longer needed. If ASan saw it, it would clear its shadow of the whole stack at
     * each switch, which loses red zones and takes three times as long. */
    fiber->context.uc_stack.ss_size = 0;
}

struct fiber *fiber_new(void (*run)(void *), void *argument)
{
    struct fiber *fiber = pool.free;
    if (fiber)
        pool.free = fiber->next_free;
    else if (!(fiber = map_stack()))
        return NULL;
    fiber->run = run;
    fiber->argument = argument;
    fiber->entered = false;
    fiber->ended = false;
    prepare_context(fiber);
    sanitizer_begin(fiber);
    return fiber;
}

void fiber_free(struct fiber *fiber)
{
    check(fiber != running);
    sanitizer_end(fiber);
    fiber->next_free = pool.free;
    pool.free = fiber;
}

size_t fiber_stack_count(void)
{
    return pool.mapped;
}

void fiber_pool_release(void)
{
    while (pool.free) {
        struct fiber *fiber = pool.free;
        pool.free = fiber->next_free;
        pool.mapped--;
        size_t guard = guard_size();
        munmap(fiber->stack - guard, guard + FIBER_STACK_BYTES + record_size());
    }
}
