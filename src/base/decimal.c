/* SPDX-License-Identifier: Apache-2.0 */
/* decimal.c: parses decimal numbers, and compares them digit by digit. A double would make two
 * different identifiers of 17 digits equal. */
#include "base/decimal.h"

#define EXPONENT_DIGITS_MAX 9

static bool is_digit(char byte)
{
    return byte >= '0' && byte <= '9';
}

static size_t count_digits(struct view text, size_t at)
{
    size_t count = 0;
    while (at + count < text.size && is_digit(text.data[at + count]))
        count++;
    return count;
}

/* Parses an exponent, such as "e-3", that starts at `at`. None at all is the exponent 0. */
static bool parse_exponent(struct view text, size_t at, int64_t *ret_exponent)
{
    *ret_exponent = 0;
    if (at == text.size)
        return true;
    if (text.data[at] != 'e' && text.data[at] != 'E')
        return false;
    at++;
    bool negative = at < text.size && text.data[at] == '-';
    if (negative || (at < text.size && text.data[at] == '+'))
        at++;
    size_t count = count_digits(text, at);
    if (count == 0 || count > EXPONENT_DIGITS_MAX || at + count != text.size)
        return false;
    for (size_t i = 0; i < count; i++)
        *ret_exponent = *ret_exponent * 10 + (text.data[at + i] - '0');
    if (negative)
        *ret_exponent = -*ret_exponent;
    return true;
}

/* Drops zeros and a point at both ends. *power is the power of ten of the first digit. A whole
 * number may lose the zeros before its point too, because its power tells how many there were. */
static struct view trim_zeros(struct view digits, int64_t *power)
{
    while (digits.size > 0 && (digits.data[0] == '0' || digits.data[0] == '.')) {
        *power -= digits.data[0] == '0';
        digits = view_from(digits, 1);
    }
    while (digits.size > 0 &&
           (digits.data[digits.size - 1] == '0' || digits.data[digits.size - 1] == '.'))
        digits.size--;
    return digits;
}

bool decimal_parse(struct view text, struct decimal *ret_decimal)
{
    bool negative = text.size > 0 && text.data[0] == '-';
    size_t start = negative, whole = count_digits(text, start), end = start + whole;
    if (whole == 0 || (whole > 1 && text.data[start] == '0'))
        return false;
    if (end < text.size && text.data[end] == '.') {
        size_t fraction = count_digits(text, end + 1);
        if (fraction == 0)
            return false;
        end += 1 + fraction;
    }
    int64_t exponent;
    if (!parse_exponent(text, end, &exponent))
        return false;
    struct decimal decimal = { .power = (int64_t)whole - 1 + exponent };
    decimal.digits = trim_zeros(view_from(view_first(text, end), start), &decimal.power);
    if (decimal.digits.size > 0)
        decimal.sign = negative ? -1 : 1;
    else
        decimal.power = 0;
    *ret_decimal = decimal;
    return true;
}

/* The next digit, or '\0' at the end. */
static char next_digit(struct view *digits)
{
    if (digits->size > 0 && digits->data[0] == '.')
        *digits = view_from(*digits, 1);
    if (digits->size == 0)
        return '\0';
    char digit = digits->data[0];
    *digits = view_from(*digits, 1);
    return digit;
}

int decimal_compare(const struct decimal *a, const struct decimal *b)
{
    if (a->sign != b->sign)
        return a->sign < b->sign ? -1 : 1;
    if (a->power != b->power)
        return a->power < b->power ? -a->sign : a->sign;
    struct view left = a->digits, right = b->digits;
    char one, two;
    do {
        one = next_digit(&left);
        two = next_digit(&right);
    } while (one == two && one != '\0');
    if (one == two)
        return 0;
    return one < two ? -a->sign : a->sign;
}

bool decimal_bytes(struct buffer *to, const struct decimal *decimal)
{
    const unsigned char turned = decimal->sign < 0 ? 0xff : 0;
    const uint64_t power = (uint64_t)decimal->power + (UINT64_C(1) << 63);
    struct view digits = decimal->digits;
    buffer_append_byte(to, (char)(decimal->sign + 1));
    if (decimal->sign == 0)
        return !to->failed;
    for (int shift = 56; shift >= 0; shift -= 8)
        buffer_append_byte(to, (char)((unsigned char)(power >> shift) ^ turned));
    char digit;
    do {
        digit = next_digit(&digits);
        buffer_append_byte(to, (char)((unsigned char)digit ^ turned));
    } while (digit != '\0');
    return !to->failed;
}
