package discordtest

import "time"

func (s *Server) getGateway(*request) (any, error) {
	return map[string]any{"url": s.gatewayURL()}, nil
}

// getGatewayBot: https://discord.com/developers/docs/events/gateway#get-gateway-bot
func (s *Server) getGatewayBot(*request) (any, error) {
	return map[string]any{
		"url": s.gatewayURL(), "shards": s.config.Shards,
		"session_start_limit": map[string]any{
			"total": 1000, "remaining": 999, "reset_after": (24 * time.Hour).Milliseconds(),
			"max_concurrency": max(1, s.config.MaxConcurrency),
		},
	}, nil
}

func (s *Server) getMe(*request) (any, error) { return Bot, nil }

func (s *Server) getUser(r *request) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.users[r.PathValue("user")]
	if u == nil {
		return nil, UnknownUser
	}
	return *u, nil
}

func (s *Server) getApplication(*request) (any, error) {
	return map[string]any{
		"id": ApplicationID, "name": "Parley", "description": "", "bot_public": true, "bot": Bot, "flags": s.applicationFlags(),
	}, nil
}

// applicationFlags tell which privileged intents are switched on; bit 19 is
// Message Content for a bot in fewer than 100 guilds.
// https://discord.com/developers/docs/resources/application#application-object-application-flags
func (s *Server) applicationFlags() int {
	if s.config.WithoutMessageContent {
		return 0
	}
	return 1 << 19
}

// openDM: https://discord.com/developers/docs/resources/user#create-dm
func (s *Server) openDM(r *request) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var with struct {
		Recipient string `json:"recipient_id"`
	}
	if err := r.decode(&with); err != nil {
		return nil, err
	}
	u := s.users[with.Recipient]
	switch {
	case !isSnowflake(with.Recipient):
		return nil, invalid("recipient_id", "NUMBER_TYPE_COERCE", "Value %q is not snowflake.", with.Recipient)
	case u == nil:
		return nil, UnknownUser
	case u.Bot:
		return nil, CannotDM
	}
	return s.wireChannel(s.dmWith(u)), nil
}
