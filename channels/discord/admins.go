package discord

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strconv"

	"github.com/bwmarrin/discordgo"
)

// adminPermissions are the permissions of people who run a server. Channels can't take
// them away: https://discord.com/developers/docs/topics/permissions#permission-overwrites
const adminPermissions = discordgo.PermissionAdministrator | discordgo.PermissionManageGuild

// inPlace is a person in a place. Results are cached for each person, since Discord does not list
// the members of a role.
type inPlace struct{ place, user string }

// IsAdmin reports whether a user runs the server of an address: as its owner, or by a
// role with Administrator or Manage Server.
func (c *Channel) IsAdmin(ctx context.Context, addr, user string) (bool, error) {
	to, err := parseAddress(addr)
	if err != nil || user == "" {
		return false, err
	}
	place := cmp.Or(to.Parent, to.Channel)
	admins, known := c.admins.Recall(inPlace{place, user})
	if !known {
		is, err := c.askAdmin(ctx, place, user)
		if err != nil {
			return false, err
		}
		if is {
			admins = []string{user}
		}
		c.admins.Remember(inPlace{place, user}, admins)
	}
	return slices.Contains(admins, user), nil
}

func (c *Channel) askAdmin(ctx context.Context, place, user string) (bool, error) {
	var where channel
	if err := c.ask(ctx, discordgo.EndpointChannel(place), &where); err != nil || where.GuildID == "" {
		return false, err
	}
	var server struct {
		Owner string `json:"owner_id"`
		Roles []struct {
			ID          string `json:"id"`
			Permissions string `json:"permissions"`
		} `json:"roles"`
	}
	if err := c.ask(ctx, discordgo.EndpointGuild(where.GuildID), &server); err != nil || server.Owner == user {
		return err == nil, err
	}
	var who member
	if err := c.ask(ctx, discordgo.EndpointGuildMember(where.GuildID, user), &who); err != nil {
		if refused(err).status == http.StatusNotFound { // no member any more
			return false, nil
		}
		return false, err
	}
	for _, role := range server.Roles {
		permissions, err := strconv.ParseInt(role.Permissions, 10, 64)
		if err == nil && permissions&adminPermissions != 0 && (role.ID == where.GuildID || slices.Contains(who.Roles, role.ID)) {
			return true, nil
		}
	}
	return false, nil
}

// ask makes a request that changes nothing.
func (c *Channel) ask(ctx context.Context, endpoint string, into any) error {
	return c.api.call(ctx, request{method: http.MethodGet, url: endpoint, limit: endpoint}, into)
}
