package web

import (
	"encoding/json"
	"io/fs"
	"maps"
	"net/http"
	"slices"
	"strings"

	"golang.org/x/text/language"
)

// lang is a language that the pages speak.
type lang string

const (
	english lang = "en"
	chinese lang = "zh-Hant"
)

var languages = language.NewMatcher([]language.Tag{language.English, language.TraditionalChinese})

// langCookieName keeps a language that was chosen by ?lang= where a page is come
// back to without it: from a bank, by a bookmark. The queue page's script reads it.
const langCookieName = "usher_lang"

// langOf picks the language of a page: ?lang= when it names one, then the one
// chosen before, then what the browser asks for, else English.
func langOf(r *http.Request) lang {
	tags, _, err := language.ParseAcceptLanguage(r.Header.Get("Accept-Language"))
	if err != nil {
		tags = nil
	}
	for _, asked := range []string{chosenBefore(r), r.URL.Query().Get("lang")} {
		if tag, err := language.Parse(asked); err == nil {
			tags = append([]language.Tag{tag}, tags...)
		}
	}
	_, i, _ := languages.Match(tags...)
	// Simplified Chinese reads Traditional rather than English.
	if i == 1 || len(tags) > 0 && strings.HasPrefix(tags[0].String(), "zh") {
		return chinese
	}
	return english
}

func chosenBefore(r *http.Request) string {
	c, err := r.Cookie(langCookieName)
	if err != nil {
		return ""
	}
	return c.Value
}

// texts are the words of the pages, by key. Every key is there in every language.
// textGroups are the same by the files that hold them, "shop" for example: a page's
// script gets the groups that it uses.
var texts, textGroups = loadTexts()

func loadTexts() (all map[lang]map[string]string, groups map[lang]map[string]map[string]string) {
	all, groups = map[lang]map[string]string{}, map[lang]map[string]map[string]string{}
	for _, l := range []lang{english, chinese} {
		all[l], groups[l] = map[string]string{}, map[string]map[string]string{}
		names, err := fs.Glob(files, "texts/*."+string(l)+".json")
		if err != nil || len(names) == 0 {
			panic("web: the texts are missing")
		}
		for _, name := range names {
			body, err := fs.ReadFile(files, name)
			if err != nil {
				panic("web: texts cannot be read: " + err.Error())
			}
			words := map[string]string{}
			if err := json.Unmarshal(body, &words); err != nil {
				panic("web: " + name + ": " + err.Error())
			}
			group, _, _ := strings.Cut(strings.TrimPrefix(name, "texts/"), ".")
			groups[l][group] = words
			maps.Copy(all[l], words)
		}
	}
	return all, groups
}

// staffPages are the scripts of pages that need nothing of the shop's texts.
var staffPages = []string{"scan.js", "desk.js"}

// textsFor are the texts that a page's script gets: those common to all pages,
// the shop's unless staff use the page, and the group named like the script.
func textsFor(l lang, script string) map[string]string {
	out := maps.Clone(textGroups[l]["common"])
	if !slices.Contains(staffPages, script) {
		maps.Copy(out, textGroups[l]["shop"])
	}
	maps.Copy(out, textGroups[l][strings.TrimSuffix(script, ".js")])
	return out
}

// fill puts a value where a text names it: "{n}".
func fill(text, name, value string) string {
	return strings.ReplaceAll(text, "{"+name+"}", value)
}
