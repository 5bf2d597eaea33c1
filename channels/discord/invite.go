package discord

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/bwmarrin/discordgo"
)

// Permissions are what the bot needs in a server, as
// https://discord.com/developers/docs/topics/permissions counts them.
const Permissions = discordgo.PermissionViewChannel |
	discordgo.PermissionSendMessages |
	discordgo.PermissionAttachFiles | // long replies are files
	discordgo.PermissionReadMessageHistory | // to reply, and to find what was missed
	discordgo.PermissionCreatePublicThreads | // auto_thread
	discordgo.PermissionSendMessagesInThreads

// Invite asks Discord for the application of a token, and returns the link by which
// people add the bot to a server, with the permissions and slash commands it needs.
func Invite(ctx context.Context, cfg Config, setAt string) (string, error) {
	cfg, err := cfg.checked()
	if err != nil {
		return "", fmt.Errorf("discord: %w", err)
	}
	t, err := newTransport(cfg.APIURL)
	if err != nil {
		return "", fmt.Errorf("discord: api_url: not an http or https address")
	}
	api, err := newAPI(cfg.Token, t)
	if err != nil {
		return "", fmt.Errorf("discord: %w", err)
	}
	var application struct {
		ID string `json:"id"`
	}
	endpoint := discordgo.EndpointAPI + "oauth2/applications/@me"
	err = api.call(ctx, request{method: http.MethodGet, url: endpoint, limit: endpoint}, &application)
	switch {
	case refused(err).status == http.StatusUnauthorized:
		return "", tokenError(setAt)
	case err != nil:
		return "", fmt.Errorf("discord: get the application: %w", err)
	}
	query := url.Values{
		"client_id":   {application.ID},
		"scope":       {"bot applications.commands"},
		"permissions": {strconv.FormatInt(Permissions, 10)},
	}
	return "https://discord.com/oauth2/authorize?" + query.Encode(), nil
}
