package db

import "parley/conversation/internal/postgres"

// Either returns a statement, or a part of one, with a form for SQLite and a form for PostgreSQL.
// Most statements are the same for both. The form for PostgreSQL must not contain a comment or
// another Either. Both get the same arguments; with numbered or named placeholders, a form need
// not use all of them.
func Either(sqlite, server string) string { return postgres.Either(sqlite, server) }

// ToChange ends a SELECT in a transaction that changes by what it reads. On PostgreSQL it waits for other transactions that change
// the selected rows of these tables, which are named as in the FROM clause, and keeps others from changing them until this one
// ends. The rows of the first table are locked first: that of sessions, where it is among them. SQLite has one writer at a time.
func ToChange(tables string) string { return Either(``, ` FOR NO KEY UPDATE OF `+tables) }

// EachID returns a table for a parameter that IDs has made. The column value has the ids, and key
// their order.
func EachID(parameter string) string {
	return Either(`json_each(`+parameter+`)`,
		`(SELECT CAST(value AS bigint) AS value, key FROM json_array_elements_text(CAST(CAST(`+parameter+` AS text) AS json)) WITH ORDINALITY AS e(value, key))`)
}

// EachText is EachID for a parameter that is a JSON list of texts.
func EachText(parameter string) string {
	return Either(`json_each(`+parameter+`)`,
		`(SELECT value, key FROM json_array_elements_text(CAST(CAST(`+parameter+` AS text) AS json)) WITH ORDINALITY AS e(value, key))`)
}

// EachOf returns a table for the items of a JSON list, which is in a column of a table to the left in
// the FROM clause. The column value has the items as JSON, and key their indexes from 0. The table is
// empty if the list is NULL.
func EachOf(column string) string {
	return Either(`json_each(`+column+`)`,
		`LATERAL (SELECT value, key - 1 AS key FROM json_array_elements(CAST(`+column+` AS json)) WITH ORDINALITY AS e(value, key))`)
}

// Member returns a member of a JSON object in a column of text, as text or number.
func Member(column, name string) string {
	return Either(column+` ->> '`+name+`'`, `CAST(`+column+` AS json) ->> '`+name+`'`)
}
