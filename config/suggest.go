package config

import "strings"

// nearest returns the candidate that word is most likely a misspelling of, or "" when
// none is near.
func nearest(word string, candidates []string) string {
	if len(word) > longestWord {
		return ""
	}
	best, limit := "", max(1, len(word)/3)
	for _, candidate := range candidates {
		if d := distance(fold(word), fold(candidate)); d <= limit {
			best, limit = candidate, d-1
		}
	}
	return best
}

// longestWord is more than any key has, so that distance stays cheap.
const longestWord = 64

// fold returns the same text for all spellings of a key: SendRate, send-rate.
func fold(key string) string {
	return strings.NewReplacer("-", "", "_", "", " ", "").Replace(strings.ToLower(key))
}

// distance returns the number of letters to insert, delete, replace or swap with a
// neighbour to turn a into b.
func distance(a, b string) int {
	s, t := []rune(a), []rune(b)
	rows := make([][]int, len(s)+1)
	for i := range rows {
		rows[i] = make([]int, len(t)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(s); i++ {
		for j := 1; j <= len(t); j++ {
			replace := rows[i-1][j-1]
			if s[i-1] != t[j-1] {
				replace++
			}
			rows[i][j] = min(replace, rows[i-1][j]+1, rows[i][j-1]+1)
			if i > 1 && j > 1 && s[i-1] == t[j-2] && s[i-2] == t[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(s)][len(t)]
}
