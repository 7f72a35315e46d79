// SPDX-License-Identifier: Apache-2.0
// duckdb.mjs usv|ndjson OUT IN : DuckDB keeps the latest record of each id, in the order of ids.
//
// IN is a pattern. Of the ways to say it (row_number by partition, arg_max by group, distinct on)
// one sort with a look at the next row was the fastest, with all threads, the columns named rather
// than guessed, and times compared as the text they are.
import { DuckDBInstance } from '@duckdb/node-api';

const [format, out, inputs] = process.argv.slice(2);
const columns = `columns = { id: 'VARCHAR', region: 'VARCHAR', "at": 'VARCHAR', body: 'VARCHAR' }`;
const csv = "delim = '\x1f', header = false, quote = '', escape = ''";
const forms = {
	usv: [
		`read_csv('${inputs}', auto_detect = false, ${csv}, ${columns})`,
		"(FORMAT csv, DELIMITER '\x1f', HEADER false, QUOTE '', ESCAPE '')",
	],
	ndjson: [
		`read_json('${inputs}', format = 'newline_delimited', ${columns})`,
		'(FORMAT json)',
	],
};
const [source, target] = forms[format];
const instance = await DuckDBInstance.create(':memory:');
const connection = await instance.connect();
await connection.run('SET preserve_insertion_order = false');
await connection.run(`
	COPY (
		SELECT * EXCLUDE next
		FROM (SELECT *, lead(id) OVER (ORDER BY id, "at", region, body) AS next FROM ${source})
		WHERE next IS DISTINCT FROM id
	) TO '${out}' ${target}`);
