package main

import (
	"bufio"
	"embed"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// The generated set: talks in five languages about who did what with which thing where. Somebody tells a fact among
// small talk, or names a subject and the answer tells the rest of the fact. A question repeats some of the fact in
// other inflected forms, among frequent words. The facts share their words with many others, so that only a combination
// finds one. The same seed always makes the same set.

//go:embed words/*.txt
var wordFiles embed.FS

var languages = []string{"english", "french", "german", "russian", "spanish"}

// generatedQuestions is how many questions are asked about each talk, about evidence of evenly spread age.
const generatedQuestions = 100

// generate returns a set with one talk of so many messages in each language.
func generate(messages int) (set, error) {
	s := set{name: fmt.Sprintf("Generated, %d messages in each of five languages", messages)}
	for i, language := range languages {
		words, err := readLanguage(language)
		if err != nil {
			return s, err
		}
		g := generator{language: words, random: rand.New(rand.NewPCG(11, uint64(i))), told: map[[3]string]bool{}}
		s.talks = append(s.talks, g.talk(fmt.Sprintf("%s-%d", language, messages), messages))
	}
	return s, nil
}

// language is what a file of words holds, by section: single words with their inflected forms, and templates.
type language map[string][]string

// readLanguage reads words/NAME.txt. A section of words has them separated by spaces, the forms of each by a slash; in
// "details", phrases are separated by "|"; in the other sections, each line is a template.
func readLanguage(name string) (language, error) {
	file, err := wordFiles.Open("words/" + name + ".txt")
	if err != nil {
		return nil, err
	}
	defer file.Close()
	l, section := language{}, ""
	for lines := bufio.NewScanner(file); lines.Scan(); {
		line := lines.Text()
		switch {
		case strings.HasPrefix(line, "["):
			section = strings.Trim(line, "[]")
		case section == "details":
			l[section] = append(l[section], strings.Split(line, "|")...)
		case section == "names" || section == "places" || section == "nouns" || section == "verbs":
			l[section] = append(l[section], strings.Fields(line)...)
		default:
			l[section] = append(l[section], line)
		}
	}
	return l, nil
}

// generator makes one talk.
type generator struct {
	language language
	random   *rand.Rand
	told     map[[3]string]bool // facts, so that each is told once
	messages []message
	facts    []fact
}

// fact is a name, a noun, a verb and a place, with what else is said about them.
type fact struct {
	name, noun, verb, place, detail string
	evidence                        int // index of the message that tells it
}

func (g *generator) talk(name string, messages int) talk {
	for len(g.messages) < messages {
		g.turn()
	}
	t := talk{name: name, messages: g.messages[:messages]}
	for n := range generatedQuestions {
		f := g.facts[len(g.facts)*n/generatedQuestions]
		t.questions = append(t.questions, question{f.fill(g.draw("question")), []int{f.evidence}})
	}
	return t
}

// turn adds a message and its answer.
func (g *generator) turn() {
	switch n := g.random.IntN(20); {
	case n < 7:
		g.say(g.smallTalk(1))
		g.say(g.smallTalk(3))
	case n < 13:
		f := g.newFact(0)
		g.say(f.fill(g.draw("fact")))
		g.say(g.smallTalk(3))
	case n < 17:
		f := g.newFact(1)
		g.say(f.fill(g.draw("topic")))
		g.say(f.fill(g.draw("answer")))
	default:
		f := g.newFact(1)
		g.say(g.smallTalk(1))
		g.say(g.smallTalk(3) + " " + f.fill(g.draw("fact")) + " " + g.smallTalk(3))
	}
}

// newFact returns a fact that has not been told yet. The message after so many others tells it.
func (g *generator) newFact(after int) fact {
	for {
		f := fact{g.draw("names"), g.draw("nouns"), g.draw("verbs"), g.draw("places"), g.draw("details"), len(g.messages) + after}
		if key := [3]string{f.name, f.noun, f.verb}; !g.told[key] {
			g.told[key] = true
			g.facts = append(g.facts, f)
			return f
		}
	}
}

// fill puts the words of a fact into a template.
func (f fact) fill(template string) string {
	noun, nouns := forms(f.noun)
	past, gerund := forms(f.verb)
	place, places := forms(f.place)
	return strings.NewReplacer("{name}", f.name, "{noun}", noun, "{nouns}", nouns, "{past}", past, "{gerund}", gerund,
		"{place}", place, "{places}", places, "{detail}", f.detail).Replace(template)
}

// forms returns the form of a word that facts have, and the form that questions have.
func forms(word string) (told, asked string) {
	told, asked, inflected := strings.Cut(word, "/")
	if !inflected {
		asked = told
	}
	return told, asked
}

// smallTalk returns up to so many sentences that say nothing.
func (g *generator) smallTalk(most int) string {
	var list []string
	for range 1 + g.random.IntN(most) {
		list = append(list, g.draw("small"))
	}
	return strings.Join(list, " ")
}

func (g *generator) draw(section string) string {
	list := g.language[section]
	return list[g.random.IntN(len(list))]
}

func (g *generator) say(text string) {
	n := len(g.messages)
	at := time.Date(2024, 1, 1, 8, 0, 0, 0, time.UTC).Add(time.Duration(n) * 20 * time.Minute)
	g.messages = append(g.messages, message{n%2 == 0, text, at})
}
