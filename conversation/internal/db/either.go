package db

import "parley/conversation/internal/postgres"

// Either returns a statement, or a part of one, that the engines need in different words. Most
// statements are the same for both. The words for PostgreSQL hold no comment and no other
// Either. Both have the same arguments; one with numbered or named placeholders may leave some
// out.
func Either(sqlite, server string) string { return postgres.Either(sqlite, server) }

// EachID returns a table with the columns value and key, for the ids and their places in a
// parameter that IDs has made.
func EachID(parameter string) string {
	return Either(`json_each(`+parameter+`)`,
		`(SELECT CAST(value AS bigint) AS value, key FROM json_array_elements_text(CAST(CAST(`+parameter+` AS text) AS json)) WITH ORDINALITY AS e(value, key))`)
}

// EachText is EachID for a list of texts in JSON.
func EachText(parameter string) string {
	return Either(`json_each(`+parameter+`)`,
		`(SELECT value, key FROM json_array_elements_text(CAST(CAST(`+parameter+` AS text) AS json)) WITH ORDINALITY AS e(value, key))`)
}

// EachOf returns a table with the columns value, as JSON, and key, from 0, for the items of a JSON
// list in a column of a table that is named before. There are none for NULL.
func EachOf(column string) string {
	return Either(`json_each(`+column+`)`,
		`LATERAL (SELECT value, key - 1 AS key FROM json_array_elements(CAST(`+column+` AS json)) WITH ORDINALITY AS e(value, key))`)
}

// Member returns a member of a JSON object in a column of text, as text or number.
func Member(column, name string) string {
	return Either(column+` ->> '`+name+`'`, `CAST(`+column+` AS json) ->> '`+name+`'`)
}
