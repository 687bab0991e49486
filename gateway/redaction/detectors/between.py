"""What stands between the name of a secret and its value: an operator, a call, a type, an element's
end, in the syntax of many languages and files.

Invariant: pure and linear; every pattern reads a bounded way behind the name. Called by
`assignments`.
"""

from __future__ import annotations

import re
from typing import Final

#: What turns a text into a value of another type, and leaves it a text.
_WRAPPERS: Final = (
    r"(?:(?:\[\]byte|\[\]rune|String::from|CString::new|std::string|QString|QStringLiteral|TEXT|"
    r"_T|SecretStr|"
    r"SecretString|Secret|SecureString|Some|bytes|bytearray|str|string|new String|Buffer\.from|"
    r"Optional\.of|"
    r"(?:bytes|bytearray)\.fromhex|(?:binascii\.)?unhexlify|hex2bin|hex\.DecodeString|"
    r"Convert\.From(?:Base64|Hex)String|base64\.(?:Std|URL)Encoding\.DecodeString|"
    r"(?:base64\.)?b64decode|base64_decode|atob|btoa|quote|Secret\.fromString|Password|"
    r"SecretValue\.unsafePlainText)"
    r"\([ \t]{0,2}|N|L|@|ConvertTo-SecureString (?:-String )?|\(Some\()"
)
#: From the end of the name to its value. In Go, an error may stand beside the name.
GLUE: Final = re.compile(
    r"(?P<close>\\{0,7}[\"'`]|[*_]{2}(?=[ \t]?[:=])|"
    r"\}(?=[ \t]*=[ \t]*[\"']))?\]?(?:, (?:_|err)(?= :?= ))?[ \t]{0,20}(?:"
    r"(?P<op>=>(?:\s{1,40}string\(\d{1,5}\))?|→|⇒|"
    r":=|:-|<<<(?![ \t]{0,2}[\"']?[\w.\-]{1,32}:)|"
    r"<-|={1,3}|!=|\?=|\?\?=|\|\|=|\|\||\?\?|->(?=[ \t]*[\"'])|:|\|)|"
    r"(?P<arg>[ \t]))"
    r"(?:(?<=:)(?:[*_]{2}|</(?:b|strong|code|em|dt|th)>)(?=[ \t]))?"
    r"[ \t]{0,20}(?:<(?:code|b|strong|kbd|em|tt|samp)>)?"
    r"(?:!!(?:str|binary)[ \t]{1,4}|&[\w-]{1,30}[ \t]{1,4}|"
    r"!(?:vault|encrypted|encrypt|sops|gpg|str|binary|plain|password)(?:/\w{1,20})?[ \t]{1,4}){0,2}"
    r"(?:\[={0,2}\[(?=[^\]\r\n]{1,256}\]={0,2}\]))?"
    r"(?:<<[-~]?[\"']?[A-Za-z_]\w{0,24}[\"']?[ \t]{0,4}\r?\n[ \t]{0,24})?"
    r"(?:[|>][+-]?\d?[ \t]{0,4}(?:\r?\n|(?:\\{1,7}r)?\\{1,7}n)[ \t]{1,20})?"
    rf"(?:{_WRAPPERS}(?=\\{{0,7}}[\"'`]))?"
    r"(?:\((?:[ \t]{0,4}\r?\n)?[ \t]{0,24}(?=[\"']))?"
    r"(?P<prefix>[rRbBuUfF]{1,2}(?=[\"']))?(?P<quote>\\{0,7}(?:\"\"\"|'''|[\"'`]))?"
)
#: The same with a type between: `name: str = "…"`, `name string = "…"`, `name { get; set; } = "…"`.
_TYPED: Final = re.compile(
    r"(?::[ \t]{0,4}[&\[A-Za-z_][\w\[\]., |&'<>]{0,40}|[ \t]{1,4}(?:[Aa]s )?[Ss]tring|\[\d{0,5}\]|"
    r"[ \t]{0,4}\{ ?get;[ a-z;]{0,20}\})[ \t]{0,4}:?=[ \t]{0,4}[bru]?(?P<quote>[\"'])"
)
#: `name: DB_PASSWORD` and `value: …` as a pair, as container and pipeline files write them.
PAIR: Final = re.compile(
    r"[\"']?[,:]?[ \t]{0,8}(?:\{[ \t]{0,4})?"
    r"(?:\r?\n[ \t]{0,60}(?:(?:type|description|sensitive|nullable)[ \t]{0,12}=[^\r\n]{0,200}"
    r"\r?\n[ \t]{0,60}){0,4})?(?P<key>--(?:body|value)[ =]|[\"']?(?:value|default|"
    r"content)[\"']?[ \t]{0,12}(?P<op>[:=]))"
    r"[ \t]{0,8}(?P<quote>[\"'])?",
    re.IGNORECASE,
)
#: `define('NAME', 'value')`, `setdefault("NAME", "value")`, `("NAME", "value"),`
CALL: Final = re.compile(
    r"(?P<close>\\{0,7}[\"'`])(?:[ \t]{0,4},[ \t]{0,24}|[ \t]to[ \t])(?P<quote>\\{0,7}[\"'`])"
)
#: `ENV.fetch("NAME") { "value" }`, `get("NAME") or "value"`
_DEFAULT: Final = re.compile(
    r"[\"'`]\)?\]?[ \t]{0,2}(?:\{|or|\|\||\?\?|\?:|:-)[ \t]{0,2}(?P<quote>[\"'`])"
)
#: `= environ.get("NAME") or "value"`, `: process.env.NAME ?? "value"`, `= getenv("NAME", "value")`
FALLBACK: Final = re.compile(
    r"[\"'`]?\]?[ \t]{0,8}(?:=|:=?)[ \t]{0,8}"
    r"(?:[\w.:>$-]{1,60}(?:[(\[][\"'][\w.\-]{1,60}[\"'][)\]])?"
    r"[ \t]{0,2}(?:\bor\b|\|\||\?\?|\?:)[ \t]{0,2}|"
    r"[\w.:>-]{1,40}\([\"'][\w.\-]{1,60}[\"'],[ \t]{0,2})(?P<quote>[\"'`])"
)
#: `{name, "value"}`, `(name . "value")`; a comma between round brackets is between arguments.
_ATOM_PAIR: Final = re.compile(
    r"(?:,[ \t]{0,4}(?=\"[^\"\n]{1,256}\"\})|[ \t]\.[ \t]{1,4}(?=\"[^\"\n]{1,256}\"\)))"
    r"(?P<quote>\")"
)
#: `expect(name).toBe("value")`
_EXPECTED: Final = re.compile(
    r"(?:(?:\(\))?\)\.(?:toBe|toEqual|toStrictEqual|isEqualTo|to\.eql?|to\.equal|equals|contains|"
    r"to eql?)[( ]|[\"'`]\]?\)[ ]={2,3}[ ])(?P<quote>[\"'`])"
)
#: A field of a form that was sent in parts.
FORM_FIELD: Final = re.compile(
    r"\"(?:;[^\r\n]{0,80})?(?:\r?\nContent-[^\r\n]{1,100}){0,3}\r?\n\r?\n"
    r"(?P<value>[^\r\n]{1,256})"
)
#: `.password("value")`, `setPassword("value")`
_SETTER: Final = re.compile(r"\([ \t]{0,2}(?P<quote>[\"'`])")
#: `password("value")`, SQL's `= password('value')`, `password{"value"}`, `by lazy { "value" }`
BARE: Final = re.compile(
    r"(?:[({][ \t]{0,2}|[: ]{0,3}(?:String )?by lazy \{[ \t]{0,2})"
    r"(?P<quote>\"|(?<=[ =]password\()'|(?<=[ =]PASSWORD\()')(?=[^\"'\n]{1,256}[\"'][ \t]{0,2}[)}])"
)
#: `set :name, "value"` of Ruby
_SYMBOL: Final = re.compile(r",[ \t]{1,4}(?P<quote>[\"'])")
#: `def name(): return "value"`, `String name() { return "value"; }`, `let(:name) { "value" }`
_RETURNED: Final = re.compile(
    r"(?:\([^()\n]{0,60}\)(?:[ ]?(?:->|:|=>)[ ]?\w{1,20})?[ ]?[:{]?\s{1,40}return |"
    r"\)[ ]\{ )b?(?P<quote>[\"'`])"
)
#: Behind a name, what may reach further than the stretch that is judged.
MAY_GO_ON: Final = re.compile(
    r"[\"']?[,:]?[ \t]{0,8}(?:\{[ \t]{0,4})?\r?\n[ \t]{0,60}(?:type|desc|sens|null)"
    r"|\"(?:;|\r?\nContent)|[\"']?[ \t][\w:-]{1,30}=",
    re.IGNORECASE,
)
#: Where words of interfaces stand as often as secrets: the value must look like one.
CALLED: Final = (
    CALL, _DEFAULT, _EXPECTED, _SETTER, BARE, _ATOM_PAIR, _SYMBOL, _RETURNED,
)  # fmt: skip
_SETTING: Final = re.compile(r"(?:\A\.|\.(?=\w+\Z)|(?:\A|\.)(?:set|with|using|add)_?(?=[A-Z_\w]))")
#: `<entry key="NAME">value</entry>`
_NAMED_ELEMENT: Final = re.compile(
    r"[\"'](?:[ \t][\w:-]{1,30}=[\"'][^\"'<>]{0,60}[\"']){0,3}[ \t]{0,4}>"
    r"(?:\s{0,40}<(?:\w{1,10}:)?value>)?(?!\s*<)"
)
_ATTRIBUTES: Final = re.compile(
    r"(?:[ \t][\w:-]{1,30}=[\"'][^\"'<>]{0,80}[\"']){1,4}[ \t]{0,2}>(?!\s*<)"
)
_TAG: Final = re.compile(r"<(?:[\w-]{1,16}:)?\Z")
#: `<key>NAME</key><string>value</string>`, `<td>NAME</td><td>value</td>`
_NEXT_ELEMENT: Final = re.compile(
    r":?</(?:key|td|th|dt|b|strong|label|span|[\w-]{0,20}name)>\s{0,40}"
    r"<(?:string|td|dd|span|code|b|p|[\w-]{0,20}value|"
    r"data)"
    r"(?: [^<>]{0,80})?>(?!\s*<)"
)


def is_branch(text: str, start: int, glue: re.Match[str]) -> bool:
    """`visible ? "text" : "password"`: two values, and neither is the name of the other."""
    if ":" not in glue.group():
        return False
    return _TERNARY.search(text, max(0, start - 28), start) is not None


def is_entry(text: str, start: int, glue: str) -> bool:
    """Whether two strings are the name and the value of an entry, and no items of a list."""
    if " to " in glue or text.startswith("-", start):  # the next of a program's arguments
        return True
    before = text[max(0, start - 14) : start - 1].rstrip()
    return before[-1:] in ("(", "[", "{") or before.lower().endswith(('"string",', "'string',"))


def _atom_pair(text: str, start: int, end: int) -> re.Match[str] | None:
    return _ATOM_PAIR.match(text, end) if text[start - 1 : start] in ("{", "(") else None


def _by_sign(text: str, start: int, end: int) -> re.Match[str] | None:
    """What stands behind a name whose next sign says how it is used."""
    sign = text[end : end + 1]
    if sign in ("(", ")"):
        return _RETURNED.match(text, end)
    if sign == "," and text[start - 1 : start] == ":":
        return _SYMBOL.match(text, end)
    return None


def inside_element(text: str, end: int, start: int) -> int | None:
    """Where the content begins of `<name>` or `<entry key="name">`, when the name stands there."""
    if text.startswith(">", end):
        return end + 1 if _TAG.search(text, max(0, start - 24), start) else None
    if text[max(0, start - 40) : start].rpartition("<")[1]:
        opened = _ATTRIBUTES.match(text, end)
        if opened is not None and _TAG.search(text, max(0, start - 24), start):
            return opened.end()
    element = _NAMED_ELEMENT.match(text, end) or _NEXT_ELEMENT.match(text, end)
    return element.end() if element else None


#: `x ? "password" : "text"`
_TERNARY: Final = re.compile(r"\?[ ]?[\"'][^\"'\n]{0,24}\Z")


def glue_behind(text: str, name: str, start: int, end: int) -> re.Match[str] | None:
    """What leads from the name at `start` to `end` to its value; no pair, no element."""
    return (
        _TYPED.match(text, end)
        or CALL.match(text, end)
        or _DEFAULT.match(text, end)
        or _EXPECTED.match(text, end)
        or _atom_pair(text, start, end)
        or _by_sign(text, start, end)
        or (_SETTER.match(text, end) if _SETTING.search(name) else BARE.match(text, end))
        or GLUE.match(text, end)
    )
