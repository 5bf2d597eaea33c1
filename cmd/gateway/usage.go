package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"parley/config"
	"parley/conversation"
	"parley/conversation/budgets"
	"parley/conversation/usage"
	"parley/plaintext"
)

// usageGroups are what `gateway usage --by` takes.
var usageGroups = []string{string(usage.ByDay), string(usage.ByPerson), string(usage.BySession), string(usage.ByAgent), string(usage.ByModel)}

// maxUsageDays is how many days `gateway usage` looks back at most: ten years.
const maxUsageDays = 3650

func usageCommand(configPath *string) *cobra.Command {
	var by string
	var days int
	var asJSON bool
	command := &cobra.Command{
		Use:   "usage",
		Short: "Show the tokens and the cost of model calls, by day, person, session, agent or model",
		Long: "Sums up the model calls of the last days, which begin at 00:00 UTC. Costs are those of the prices\n" +
			"at the time of each call. What has no stored cost, since it is older or its model had no price, counts by\n" +
			"the present prices, and is unknown without one. By session and by agent, deleted conversations do not count.",
		Example: "  gateway usage --days 7\n  gateway usage --by person --json",
		Args:    cobra.NoArgs,
		RunE: withStore(configPath, func(cmd *cobra.Command, _ []string, store *conversation.Store) error {
			if !slices.Contains(usageGroups, by) {
				return fmt.Errorf("--by: found %q, allowed: %s", by, strings.Join(usageGroups, ", "))
			}
			if days < 1 || days > maxUsageDays {
				return fmt.Errorf("--days: found %d, allowed: 1 to %d", days, maxUsageDays)
			}
			cfg, err := config.Load(*configPath, os.Getenv)
			if err != nil {
				return err
			}
			from := store.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, 1-days)
			parts, err := usage.New(store).By(cmd.Context(), usage.Group(by), from)
			if err != nil {
				return err
			}
			shown := sumUsage(cfg, usage.Group(by), from, parts)
			if asJSON {
				return printJSON(cmd.OutOrStdout(), shown)
			}
			return printUsage(cmd.OutOrStdout(), shown)
		}),
	}
	command.Flags().StringVar(&by, "by", string(usage.ByDay), "what to sum up by: `GROUP` is "+strings.Join(usageGroups, ", "))
	command.Flags().IntVar(&days, "days", 30, "the last `N` days, today included")
	jsonFlag(command, &asJSON)
	return command
}

// usageJSON is what model calls have used, in JSON.
type usageJSON struct {
	By       usage.Group `json:"by"`
	From     time.Time   `json:"from"` // UTC, RFC 3339
	Currency string      `json:"currency"`
	Rows     []usageRow  `json:"rows"`
	Total    usageRow    `json:"total"`
}

// usageRow is what the calls of one group have used.
type usageRow struct {
	Name             string   `json:"name"`
	PersonName       string   `json:"person_name,omitempty"`
	PromptTokens     int64    `json:"prompt_tokens"`
	CachedTokens     int64    `json:"cached_tokens"` // tokens of prompt_tokens that came from the server's cache
	CompletionTokens int64    `json:"completion_tokens"`
	Cost             *float64 `json:"cost"` // null if one of the models has no price
}

// add adds the use of a model.
func (r *usageRow) add(cfg config.Config, s usage.Spent) {
	r.PromptTokens += s.Prompt
	r.CachedTokens += s.Cached
	r.CompletionTokens += s.Completion
	if s.Prompt+s.Completion == 0 || r.Cost == nil {
		return
	}
	cost, known := s.Cost.Of(s.Model, cfg.Prices().Cost)
	*r.Cost += cost
	if !known {
		r.Cost = nil
	}
}

// sumUsage sums up parts by their names: days in their order, others with the most tokens first.
func sumUsage(cfg config.Config, by usage.Group, from time.Time, parts []usage.Part) usageJSON {
	u := usageJSON{By: by, From: from, Currency: cfg.LLM.Currency, Rows: []usageRow{}, Total: usageRow{Name: "total", Cost: new(float64)}}
	index := map[string]int{}
	for _, p := range parts {
		i, known := index[p.Name]
		if !known {
			i = len(u.Rows)
			index[p.Name] = i
			u.Rows = append(u.Rows, usageRow{Name: p.Name, Cost: new(float64)})
		}
		u.Rows[i].PersonName = cmp.Or(p.Person, u.Rows[i].PersonName)
		u.Rows[i].add(cfg, p.Spent)
		u.Total.add(cfg, p.Spent)
	}
	slices.SortFunc(u.Rows, func(a, b usageRow) int {
		if by == usage.ByDay {
			return cmp.Compare(a.Name, b.Name)
		}
		return cmp.Or(cmp.Compare(b.PromptTokens+b.CompletionTokens, a.PromptTokens+a.CompletionTokens), cmp.Compare(a.Name, b.Name))
	})
	return u
}

func printUsage(out io.Writer, u usageJSON) error {
	if len(u.Rows) == 0 {
		_, err := fmt.Fprintf(out, "No model has been called since %s.\n", u.From.Format(time.DateOnly))
		return err
	}
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintf(table, "%s\tSENT\tCACHED\tANSWERED\tCOST\n", strings.ToUpper(string(u.By)))
	for _, r := range append(u.Rows, u.Total) {
		name := cmp.Or(r.Name, "(none)")
		if r.PersonName != "" {
			name += " (" + r.PersonName + ")"
		}
		cost := "unknown"
		if r.Cost != nil {
			cost = budgets.Cost.Words(budgets.Money(*r.Cost), u.Currency)
		}
		tokens := budgets.Tokens.String
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", plaintext.OneLine(name), tokens(r.PromptTokens), tokens(r.CachedTokens), tokens(r.CompletionTokens), cost)
	}
	return table.Flush()
}
