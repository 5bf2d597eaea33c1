package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
)

// depths are the numbers of hits among which evidence is looked for.
var depths = []int{5, 10, 25}

const (
	barDepth = 10 // the depth of the bars and of the figures by age
	quarters = 4  // of a talk, by the age of the evidence
)

// recall is how much of the evidence a search finds, from 0 to 1.
//
// The questions about old evidence may be harder or
// easier than those about new evidence, so each talk is also told from its end, whereby its oldest quarter becomes the newest:
// the mean of both ways has every question once with old and once with new evidence, and shows what age alone does.
type recall struct {
	questions int
	at        map[int]float64    // by depth, the mean over all questions of the share of their evidence that was found
	byAge     [quarters]fraction // the evidence found within barDepth, by its age, the oldest quarter first
}

type fraction struct{ found, all int }

// with returns a fraction of the evidence of two together.
func (f fraction) with(other fraction) fraction {
	return fraction{f.found + other.found, f.all + other.all}
}

func (f fraction) ratio() float64 { return float64(f.found) / float64(max(f.all, 1)) }

// add counts the answer to a question about a talk.
func (r *recall) add(t talk, q question, found []int) {
	if r.at == nil {
		r.at = map[int]float64{}
	}
	r.questions++
	for _, depth := range depths {
		within := found[:min(depth, len(found))]
		n := 0
		for _, e := range q.evidence {
			hit := slices.Contains(within, e)
			if hit {
				n++
			}
			if depth == barDepth {
				quarter := &r.byAge[e*quarters/len(t.messages)]
				quarter.all++
				if hit {
					quarter.found++
				}
			}
		}
		r.at[depth] += float64(n) / float64(len(q.evidence))
	}
}

// mean returns the recall at a depth.
func (r *recall) mean(depth int) float64 { return r.at[depth] / float64(max(r.questions, 1)) }

// measure asks a searcher all questions of a talk.
func (r *recall) measure(ctx context.Context, s searcher, t talk) error {
	for _, q := range t.questions {
		found, err := s.search(ctx, q.text, slices.Max(depths))
		if err != nil {
			return fmt.Errorf("%s: %q: %w", t.name, q.text, err)
		}
		r.add(t, q, found)
	}
	return nil
}

// comparison is the recall of the store's search beside that of plain BM25.
type comparison struct{ parley, plain recall }

// ages name the quarters of a talk.
var ages = [quarters]string{"oldest quarter", "second", "third", "newest quarter"}

// print writes a table with a line for each depth and each quarter, and then a line for each quarter of both ways of
// telling the talks together.
func (c *comparison) print(out io.Writer, s set, backwards comparison) error {
	messages, questions := s.size()
	fmt.Fprintf(out, "%s: %d talks, %d messages, %d questions\n", s.name, len(s.talks), messages, questions)
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "\tParley\tplain BM25\tratio")
	line := func(name string, parley, plain float64) {
		ratio := "-"
		if plain > 0 {
			ratio = fmt.Sprintf("%.2f", parley/plain)
		}
		fmt.Fprintf(table, "%s\t%.3f\t%.3f\t%s\n", name, parley, plain, ratio)
	}
	for _, depth := range depths {
		line(fmt.Sprintf("recall@%d", depth), c.parley.mean(depth), c.plain.mean(depth))
	}
	for i, name := range ages {
		line(fmt.Sprintf("recall@%d, %s", barDepth, name), c.parley.byAge[i].ratio(), c.plain.byAge[i].ratio())
	}
	for i, name := range ages {
		line(fmt.Sprintf("told both ways, %s", name), c.parley.byAge[i].with(backwards.parley.byAge[i]).ratio(),
			c.plain.byAge[i].with(backwards.plain.byAge[i]).ratio())
	}
	fmt.Fprintln(table)
	return table.Flush()
}
