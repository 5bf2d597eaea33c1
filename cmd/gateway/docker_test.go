package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"parley/config"
)

// The image listens on the port that it exposes and that the documentation publishes, keeps
// its data in the volume, and starts and checks itself with commands that exist.
func TestDockerfile(t *testing.T) {
	t.Parallel()
	file := read(t, "Dockerfile")
	one := func(form string) string {
		t.Helper()
		found := regexp.MustCompile("(?m)" + form + "$").FindStringSubmatch(file)
		if found == nil {
			t.Fatalf("the Dockerfile has no line of the form %s", form)
		}
		return found[1]
	}
	listen, port := one(`^ENV HTTP_LISTEN=(\S+)`), one(`^EXPOSE (\d+)`)
	if listen != "0.0.0.0:"+port {
		t.Errorf("it listens on %s and exposes %s", listen, port)
	}
	for _, name := range []string{"Dockerfile", "README.md", "docs/operations.md"} {
		if !strings.Contains(read(t, name), "-p 127.0.0.1:"+port+":"+port+" -v parley:/data") {
			t.Errorf("%s publishes other ports than %s, or another volume", name, port)
		}
	}
	if folder, volume := one(`^WORKDIR (/data)`), one(`^VOLUME (\S+)`); folder != volume {
		t.Errorf("the data is kept in %s, and %s is the volume", folder, volume)
	}
	// Without a configuration, and with one beside it, the database is in the working folder.
	cfg, err := config.Load("", func(name string) string { return map[string]string{"HTTP_LISTEN": listen}[name] })
	if err != nil || filepath.IsAbs(cfg.Database) || cfg.HTTP.Address() != listen {
		t.Errorf("with the image's environment the database is %s, and the server listens on %s: %v", cfg.Database, cfg.HTTP.Address(), err)
	}
	program := commandLine(t, one(`^ENTRYPOINT (\[.*\])`))
	if check := commandLine(t, one(`^HEALTHCHECK .*CMD (\[.*\])`)); !slices.Equal(check[:1], program) {
		t.Errorf("the health check runs %q", check)
	} else {
		expectCommand(t, check[1:])
	}
	expectCommand(t, commandLine(t, one(`^CMD (\[.*\])`)))
	if !strings.HasSuffix(one(`^COPY --from=build \S+ (\S+)`), "/bin/"+program[0]) {
		t.Errorf("%s is not where the image copies the program", program[0])
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(project, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func commandLine(t *testing.T, list string) (words []string) {
	t.Helper()
	if err := json.Unmarshal([]byte(list), &words); err != nil {
		t.Fatalf("%s: %v", list, err)
	}
	return words
}

// expectCommand fails the test if the gateway does not know a command and its flags.
func expectCommand(t *testing.T, args []string) {
	t.Helper()
	command, flags, err := newRoot().Find(args)
	if err == nil {
		err = command.ParseFlags(flags)
	}
	if err != nil || command.Name() != args[0] {
		t.Errorf("gateway %s: %v", strings.Join(args, " "), err)
	}
}
