package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// report is all that was measured.
type report struct {
	At      time.Time `json:"at"`
	Go      string    `json:"go"`
	CPUs    int       `json:"cpus"`
	Figures []*figure `json:"figures"`
	Missing []string  `json:"missing,omitempty"` // programs without which some figures are not measured
}

// figure is one thing that was measured, in every round.
type figure struct {
	Name    string   `json:"name"`
	Unit    string   `json:"unit"`
	Floor   *float64 `json:"floor,omitempty"` // median of the rounds
	Gateway float64  `json:"gateway"`         // median of the rounds
	Ratio   *float64 `json:"ratio,omitempty"` // median of the rounds' ratios of gateway to floor
	Bar     string   `json:"bar,omitempty"`
	OK      *bool    `json:"ok,omitempty"` // whether the bar is met

	floor, gateway []float64
	bar            bar
}

// bar is the aim of a figure. The zero value means none.
type bar struct {
	of      bound
	atLeast bool // the bar is a lower bound; else an upper bound
	limit   float64
}

// bound is what a bar bounds.
type bound int

const (
	value bound = iota // the gateway's figure
	ratio              // the ratio of the gateway's figure to the floor's
	more               // the difference between the gateway's figure and the floor's
)

func atMost(limit float64) bar         { return bar{limit: limit} }
func atLeast(limit float64) bar        { return bar{limit: limit, atLeast: true} }
func ratioAtMost(limit float64) bar    { return bar{of: ratio, limit: limit} }
func ratioAtLeast(limit float64) bar   { return bar{of: ratio, limit: limit, atLeast: true} }
func moreAtMost(limit float64) bar     { return bar{of: more, limit: limit} }
func (b bar) meets(value float64) bool { return (value >= b.limit) == b.atLeast || value == b.limit }

func newReport() *report {
	return &report{At: time.Now().UTC().Truncate(time.Second), Go: runtime.Version(), CPUs: runtime.NumCPU()}
}

// figure returns the figure of that name, which it creates at the first call.
func (r *report) figure(name, unit string, bar bar) *figure {
	i := slices.IndexFunc(r.Figures, func(f *figure) bool { return f.Name == name })
	if i < 0 {
		i = len(r.Figures)
		r.Figures = append(r.Figures, &figure{Name: name, Unit: unit, bar: bar})
	}
	return r.Figures[i]
}

// missing notes that this machine lacks a program, so that some figures are not measured.
func (r *report) missing(program string) {
	if !slices.Contains(r.Missing, program) {
		r.Missing = append(r.Missing, program)
	}
}

// settle computes what is shown from the rounds.
func (r *report) settle() {
	for _, f := range r.Figures {
		f.Gateway = median(f.gateway)
		judged := f.Gateway
		if len(f.floor) > 0 {
			floor := median(f.floor)
			f.Floor = &floor
			var ratios, differences []float64
			for i := range min(len(f.floor), len(f.gateway)) {
				ratios = append(ratios, f.gateway[i]/f.floor[i])
				differences = append(differences, f.gateway[i]-f.floor[i])
			}
			times := median(ratios)
			if !math.IsInf(times, 0) && !math.IsNaN(times) { // a figure of the floor may be too small to be measured
				f.Ratio = &times
			}
			switch f.bar.of {
			case ratio:
				judged = times
			case more:
				judged = median(differences)
			}
		}
		if f.bar == (bar{}) {
			continue
		}
		ok := f.bar.meets(judged)
		f.Bar, f.OK = f.bar.String(f.Unit), &ok
	}
}

// String describes the bar.
func (b bar) String(unit string) string {
	sign := "≤"
	if b.atLeast {
		sign = "≥"
	}
	switch b.of {
	case ratio:
		return fmt.Sprintf("%s %g × floor", sign, b.limit)
	case more:
		return fmt.Sprintf("%s floor + %g %s", sign, b.limit, unit)
	}
	return strings.TrimSpace(fmt.Sprintf("%s %g %s", sign, b.limit, unit))
}

func (r *report) print(to io.Writer) {
	r.settle()
	fmt.Fprintf(to, "%s, %d CPUs, shared with the fakes\n\n", r.Go, r.CPUs)
	table := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "FIGURE\tFLOOR\tGATEWAY\tRATIO\tBAR\t")
	for _, f := range r.Figures {
		floor, times, verdict := "", "", ""
		if f.Floor != nil {
			floor = number(*f.Floor)
		}
		if f.Ratio != nil {
			times = fmt.Sprintf("%.2f", *f.Ratio)
		}
		if f.OK != nil {
			verdict = "over"
			if *f.OK {
				verdict = "ok"
			}
		}
		name := f.Name
		if f.Unit != "" {
			name += ", " + f.Unit
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", name, floor, number(f.Gateway), times, f.Bar, verdict)
	}
	table.Flush()
	for _, program := range r.Missing {
		fmt.Fprintf(to, "\n%s is not installed, so nothing is measured on it.\n", program)
	}
}

func number(x float64) string {
	switch {
	case x >= 100:
		return fmt.Sprintf("%.0f", x)
	case x >= 10:
		return fmt.Sprintf("%.1f", x)
	}
	return fmt.Sprintf("%.3f", x)
}

func (r *report) writeJSON(path string) error {
	raw, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(raw, '\n'), 0o644)
}

func median(values []float64) float64 { return quantile(values, 0.5) }

// quantile returns the value below which that share of the values lies.
func quantile(values []float64, share float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[int(share*float64(len(sorted)-1)+0.5)]
}
