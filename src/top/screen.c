/* SPDX-License-Identifier: Apache-2.0 */
/* screen.c: the only part of `top` that knows ncurses. A signal ends it as the key q does, so
 * that the terminal is always left in order. */
#include "top/screen.h"

#include <curses.h>
#include <locale.h>
#include <signal.h>
#include <string.h>

#define KEY_ESCAPE    27
#define NAP_MS        100 /* how long a key is waited for; then the ages are drawn anew */
#define ESCAPE_MS     25  /* a lone Esc is told from the start of a key's code by this time */
#define LINES_BY_PAGE 10

struct screen {
    struct env *env;
    struct reader *reader;
    const char *store;
    struct snapshot *snapshot;
    struct history history;
    struct hf_error trouble;
    struct choice choice;
    struct page page;
    struct mono_time paused_at;
    bool quits;
};

static volatile sig_atomic_t signalled;

static void note_signal(int number)
{
    (void)number;
    signalled = 1;
}

/* ---- Drawing ------------------------------------------------------------------------- */

static void set_up_colours(void)
{
    if (!has_colors())
        return;
    start_color();
    use_default_colors();
    init_pair(STYLE_GOOD, COLOR_GREEN, -1);
    init_pair(STYLE_WARNING, COLOR_YELLOW, -1);
    init_pair(STYLE_BAD, COLOR_RED, -1);
}

static attr_t attributes_of(enum style style)
{
    switch (style) {
    case STYLE_STRONG: return A_BOLD;
    case STYLE_TITLE: return A_REVERSE;
    case STYLE_FAINT: return A_DIM;
    case STYLE_GOOD:
    case STYLE_WARNING: return (attr_t)COLOR_PAIR(style);
    case STYLE_BAD: return (attr_t)COLOR_PAIR(style) | A_BOLD;
    case STYLE_PLAIN: break;
    }
    return A_NORMAL;
}

static void draw(struct screen *screen)
{
    struct view_of_store view = {
        .store = screen->store,
        .snapshot = screen->snapshot,
        .history = &screen->history,
        .trouble = &screen->trouble,
        .now = screen->choice.paused ? screen->paused_at : env_now(screen->env),
    };
    int lines = getmaxy(stdscr), columns = getmaxx(stdscr);
    if (!page_make(&screen->page, &view, &screen->choice, (size_t)lines, (size_t)columns))
        return;
    erase();
    for (size_t i = 0; i < screen->page.count; i++) {
        bool is_last = i + 1 == screen->page.count;
        int line = is_last ? lines - 1 : (int)i;
        if (line >= lines || (!is_last && line == lines - 1))
            continue;
        attr_t attributes = attributes_of(screen->page.styles[i]);
        attron(attributes);
        mvaddstr(line, 0, page_line(&screen->page, i));
        attroff(attributes);
    }
    refresh();
}

/* ---- Keys ---------------------------------------------------------------------------- */

static void type_filter(struct choice *choice, int key)
{
    size_t size = strlen(choice->filter);
    if (key == '\n' || key == KEY_ENTER) {
        choice->typing = false;
    } else if (key == KEY_ESCAPE) {
        choice->typing = false;
        choice->filter[0] = '\0';
    } else if ((key == KEY_BACKSPACE || key == 127 || key == '\b') && size > 0) {
        while (--size > 0 && ((unsigned char)choice->filter[size] & 0xc0) == 0x80)
            continue;
        choice->filter[size] = '\0';
    } else if (key >= ' ' && key < 256 && key != 127 && size < FILTER_MAX) {
        choice->filter[size] = (char)key;
        choice->filter[size + 1] = '\0';
    }
    choice->first = 0;
}

static void move_rows(struct choice *choice, size_t rows, bool up)
{
    if (!up)
        choice->first += rows; /* the page makes it fit */
    else
        choice->first -= rows < choice->first ? rows : choice->first;
}

static void show_pane(struct choice *choice, enum pane pane)
{
    choice->pane = pane;
    choice->first = 0;
}

static void pause_or_go_on(struct screen *screen)
{
    screen->choice.paused = !screen->choice.paused;
    screen->paused_at = env_now(screen->env);
}

static void handle_key(struct screen *screen, int key)
{
    struct choice *choice = &screen->choice;
    size_t rows = screen->page.rows > 1 ? screen->page.rows - 1 : LINES_BY_PAGE;
    if (choice->typing && key != KEY_RESIZE) {
        type_filter(choice, key);
        return;
    }
    switch (key) {
    case 'q': screen->quits = true; break;
    case '1':
    case '2':
    case '3':
    case '4': show_pane(choice, (enum pane)(key - '1')); break;
    case '\t': show_pane(choice, (choice->pane + 1) % PANE_COUNT); break;
    case 's': choice->order = (choice->order + 1) % ORDER_COUNT; break;
    case 'r': choice->backwards = !choice->backwards; break;
    case '/': choice->typing = true; break;
    case KEY_ESCAPE:
        choice->filter[0] = '\0';
        choice->helping = false;
        break;
    case 'p':
    case ' ': pause_or_go_on(screen); break;
    case '?':
    case 'h': choice->helping = !choice->helping; break;
    case KEY_UP: move_rows(choice, 1, true); break;
    case KEY_DOWN: move_rows(choice, 1, false); break;
    case KEY_PPAGE: move_rows(choice, rows, true); break;
    case KEY_NPAGE: move_rows(choice, rows, false); break;
    case KEY_HOME: choice->first = 0; break;
    case KEY_END: move_rows(choice, TOP_LOCKS_MAX, false); break;
    default: break;
    }
}

/* ---- The loop ------------------------------------------------------------------------ */

static void take_snapshot(struct screen *screen)
{
    if (screen->choice.paused)
        return;
    struct snapshot *newest = reader_take(screen->reader, &screen->trouble);
    if (!newest)
        return;
    snapshot_free(screen->snapshot);
    screen->snapshot = newest;
    history_add(&screen->history, newest);
}

static bool begin_screen(void)
{
    struct sigaction action = { .sa_handler = note_signal };
    const int numbers[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        sigaction(numbers[i], &action, NULL);
    setlocale(LC_ALL, "");
    if (!newterm(NULL, stdout, stdin))
        return false;
    set_up_colours();
    cbreak();
    noecho();
    keypad(stdscr, TRUE);
    set_escdelay(ESCAPE_MS);
    curs_set(0);
    timeout(NAP_MS);
    return true;
}

enum hf_status screen_run(struct env *env, struct reader *reader, const char *store,
                          struct mono_time end, struct hf_error *error)
{
    struct screen screen = { .env = env, .reader = reader, .store = store, .page = PAGE_INIT };
    error_clear(&screen.trouble);
    if (!begin_screen())
        return error_set(error, HF_UNSUPPORTED,
                         "this kind of terminal is not known; set TERM, for instance to xterm");
    while (!screen.quits && !signalled && mono_before(env_now(env), end)) {
        take_snapshot(&screen);
        draw(&screen);
        int key = getch();
        if (key != ERR)
            handle_key(&screen, key);
    }
    endwin();
    snapshot_free(screen.snapshot);
    page_release(&screen.page);
    return HF_OK;
}
