"""Passwords that programs take by a short option or as `user:password`.

Invariant: pure and linear; work is bounded for every program's name. Called by `SecretRule`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from ahocorasick_rs import AhoCorasick, Implementation

from gateway.redaction.detectors.base import Source, part_of
from gateway.redaction.detectors.values import CONSTANTS, SHORTEST, Judge, is_chosen
from gateway.redaction.spans import Span

#: What may stand between a program and its option, and a value behind it.
_ARGS: Final = r"(?: [^\n|;]{0,120}?)?"
_PW: Final = r"[\"']?(?P<value>[^\s\"'|;]{1,128})"
_USER_AND: Final = r"[\"'][^\"'\n]{0,64}[\"'], ?[\"'](?P<value>[^\"'\n]{1,128})[\"']"
_TEXT: Final = r"[\"'](?P<bare>[^\"'\n]{6,128})(?P<value>(?!))?[\"']"
_USER_MAIL_AND: Final = (
    r"[\"'][^\"'\n]{1,64}[\"'], ?(?:[\"'][^\"'\n]{0,64}[\"'], ?)?"
    r"[\"'](?P<value>[^\"'\n@]{1,128})[\"']"
)
_ASSERTS: Final = r"(?:assert[\w.]{0,24}!?|require\.equal)\((?:t, )?\s{0,8}"
_EXPECTED: Final = re.compile(
    rf"{_ASSERTS}{_TEXT},[ ]?[\w.>$()-]{{0,50}}?(?:password|passwd|passphrase|pwd)(?:\(\))?[,)]",
    re.IGNORECASE,
)
#: The same the other way round.
_FOUND: Final = re.compile(
    rf"{_ASSERTS}[\w.>$()\[\"'-]{{0,50}}?(?:password|passwd|passphrase|pwd|secret|token|api_?key)"
    rf"(?:[\"']\])?(?:\(\))?,[ ]?{_TEXT}[ ]?[,)]",
    re.IGNORECASE,
)
#: A user's name, perhaps an address, and what looks chosen.
_USER_CHOSEN: Final = (
    r"[\"'][^\"'\n]{1,64}[\"'], ?(?:[\"'][^\"'\n@]{0,40}@[^\"'\n]{0,40}[\"'], ?)?"
    r"[\"'](?P<bare>(?!password\d|[\w.+-]{1,40}@[\w-]{1,40}\.)[^\"'\n]{6,128})"
    r"(?P<value>(?!))?[\"'][ ]?[,)\]]"
)
_MAKES_USER: Final = re.compile(
    r"(?:user|login|sign_?(?:in|up)|log_?in|authenticat(?:e|or)|member)(?:_?\w{1,12})?"
    rf"\(\s{{0,8}}{_USER_CHOSEN}",
    re.IGNORECASE,
)
_OF_PASSWORD: Final = re.compile(
    rf"pass(?:word|phrase)(?:_?(?:hash|digest|valid|strength|encrypt(?:ed)?))?"
    rf"\((?:[\w.]{{1,30}}, ?)?\s{{0,8}}(?:b|\[\]byte\()?{_TEXT}\)?[ ]?[,)]",
    re.IGNORECASE,
)
_ORACLE: Final = r"(?:-\w{1,8} ){0,3}[\w$#]{1,30}/(?P<value>[^\s\"'@/]{4,64})(?=@|\s|\Z)"
_PROGRAMS: Final = {
    "sshpass": re.compile(rf"sshpass[ \t]{{1,4}}-p[ \t]{{0,4}}{_PW}"),
    "curl ": re.compile(
        r"curl (?:[^\n|;]{0,200}? )?(?:-[a-zA-Z]{0,5}u|--user|"
        r"--proxy-user)[ =]{0,2}[\"']?[\w.@\-]{1,64}:"
        r"(?P<value>[^\s\"']{1,128})"
    ),
    "mysql": re.compile(
        rf"mysql(?:dump|admin)?(?:{_ARGS} -p[\"']?|[\"'],[^\n\]]{{0,120}}?[\"']-p)"
        r"(?P<value>[^\s\"'-][^\s\"']{3,128})"
    ),
    "mysqladmin": re.compile(rf"mysqladmin{_ARGS} password {_PW}"),
    "cqlsh": re.compile(rf"cqlsh{_ARGS} -p ?{_PW}"),
    "plink": re.compile(rf"plink{_ARGS} -pw ?{_PW}"),
    "pscp": re.compile(rf"p(?:scp|sftp){_ARGS} -pw ?{_PW}"),
    "registry login": re.compile(rf"registry login{_ARGS} -p ?{_PW}"),
    "cf login": re.compile(rf"cf login{_ARGS} -p ?{_PW}"),
    "useradd": re.compile(
        rf"useradd{_ARGS} -p ?[\"']?(?P<bare>[^\s\"'|;]{{1,128}})(?P<value>(?!))?"
    ),
    "wpa_passphrase": re.compile(
        r"wpa_passphrase [\"']?[\w.-]{1,32}[\"']? "
        r"[\"']?(?P<value>[^\s\"'|;]{8,63})"
    ),
    "chpasswd <<<": re.compile(r"chpasswd <<< ?[\"']?[\w.-]{1,32}:(?P<value>[^\s\"']{4,128})"),
    "sqlcmd": re.compile(rf"sqlcmd{_ARGS} -P ?{_PW}"),
    "redis-cli": re.compile(rf"redis-cli{_ARGS} -a ?{_PW}"),
    "requirepass": re.compile(rf"requirepass {_PW}"),
    "masterauth": re.compile(rf"masterauth {_PW}"),
    "http": re.compile(
        r"https? (?:[^\n|;]{0,120}? )?(?:-a|"
        r"--auth)[ =][\"']?[\w.@\-]{1,64}:(?P<value>[^\s\"']{4,128})"
    ),
    "/u:": re.compile(
        r"/u:\S{1,64}+(?: (?!/p:)\S{1,40}+){0,3} /p:[\"']?(?P<value>[^\s\"']{4,128})",
        re.IGNORECASE,
    ),
    "psexec": re.compile(rf"psexec{_ARGS} -p ?{_PW}", re.IGNORECASE),
    "lftp": re.compile(r"lftp[^\n]{0,80}? -u ?[\"']?[\w.@\-]{1,64},(?P<value>[^\s\"']{4,128})"),
    "7z": re.compile(r"7z[ar]? [^\n|;]{0,120}?-p(?P<value>[^\s\"'-][^\s\"']{3,128})"),
    "unrar": re.compile(r"unrar [^\n|;]{0,120}?-p(?P<value>[^\s\"'-][^\s\"']{3,128})"),
    "snmp": re.compile(rf"snmp\w{{2,10}} [^\n|;]{{0,80}}?-c ?{_PW}"),
    "snmp-server": re.compile(r"snmp-server community (?P<value>\S{4,64})"),
    "vault login": re.compile(rf"vault login (?:-\S{{1,40}} )?(?:token=)?{_PW}"),
    "password-command": re.compile(
        r"password-command[ =][\"']{0,2}echo (?P<value>[^\s\"']{4,128})"
    ),
    "username ": re.compile(
        r"username \S{1,40} (?:privilege \d{1,2} )?(?:password|secret) \d{1,2} (?P<value>\S{8,128})"
    ),
    "enable ": re.compile(r"enable (?:password|secret) (?:\d{1,2} )?(?P<value>[^\s$]{6,128})"),
    "from-literal": re.compile(
        r"from-literal[= ][\"']?[\w.\-]{1,80}=[\"']?(?P<value>[^\s\"']{4,256})"
    ),
    "networkcredential": re.compile(rf"NetworkCredential\(\s{{0,8}}{_USER_AND}", re.IGNORECASE),
    "usernamepassword": re.compile(
        rf"UsernamePassword(?:AuthenticationToken|Credentials?)\(\s{{0,8}}{_USER_AND}",
        re.IGNORECASE,
    ),
    "directoryentry": re.compile(
        rf"DirectoryEntry\(\s{{0,8}}[\"'][^\"'\n]{{1,200}}[\"'],\s{{0,40}}{_USER_AND}",
        re.IGNORECASE,
    ),
    "basicauth": re.compile(
        rf"(?:Set|Http|With|Use|Add)?BasicAuth(?:entication)?\(\s{{0,8}}{_USER_AND}", re.IGNORECASE
    ),
    "basic_auth": re.compile(rf"basic_auth\(\s{{0,8}}{_USER_AND}", re.IGNORECASE),
    "mysqli": re.compile(
        rf"mysqli(?:_connect)?\(\s{{0,8}}[\"'][^\"'\n]{{1,160}}[\"'],\s{{0,8}}{_USER_AND}"
    ),
    "new pdo(": re.compile(rf"new PDO\(\s{{0,8}}[\"'][^\"'\n]{{1,200}}[\"'],\s{{0,8}}{_USER_AND}"),
    "plainauth(": re.compile(
        rf"PlainAuth\([\"'][^\"'\n]{{0,60}}[\"'],\s{{0,8}}{_USER_AND}", re.IGNORECASE
    ),
    "login(": re.compile(rf"\blogin\(\s{{0,8}}{_USER_AND}", re.IGNORECASE),
    "wifi.begin(": re.compile(rf"WiFi\.begin\(\s{{0,8}}{_USER_AND}", re.IGNORECASE),
    "jwt.": re.compile(
        r"jwt\.(?:sign|verify|encode|decode)\([^\"'\n]{1,80}, ?[\"'](?P<value>[^\"'\n]{8,256})[\"']"
    ),
    ".load(": re.compile(r"\.load\([^,\n]{1,80}, ?\"(?P<value>[^\"\n]{4,128})\"\.toCharArray"),
    "sqlplus": re.compile(rf"sqlplus {_ORACLE}", re.IGNORECASE),
    "exp ": re.compile(rf"exp {_ORACLE}", re.IGNORECASE),
    "imp ": re.compile(rf"imp {_ORACLE}", re.IGNORECASE),
    "expdp": re.compile(rf"expdp {_ORACLE}", re.IGNORECASE),
    "impdp": re.compile(rf"impdp {_ORACLE}", re.IGNORECASE),
    "sqlldr": re.compile(rf"sqlldr {_ORACLE}", re.IGNORECASE),
    "bcp ": re.compile(rf"bcp{_ARGS} -P ?{_PW}"),
    "osql ": re.compile(rf"osql{_ARGS} -P ?{_PW}"),
    "openssl enc": re.compile(rf"openssl enc{_ARGS} -k ?{_PW}"),
    "az ": re.compile(
        rf"az (?:sql|sp|ad|mysql|postgres|vm|acr|webapp|login|container){_ARGS} -p ?{_PW}"
    ),
    "assword:": re.compile(
        r"assword:[^\"'\n]{0,4}[\"'}]{1,2}\s{0,8}\{?\s{0,8}(?:exp_)?send(?:_user)?\s{1,4}(?:-- )?"
        r"\"(?P<value>[^\"\\\n]{4,128})\\[rn]"
    ),
    "printf ": re.compile(
        r"printf [\"']?(?:[\w.-]{1,32}:)?(?P<value>[^\s\"'|%\\]{4,128})"
        r"(?:\\n)?[\"']? ?\| ?(?:sudo )?"
        r"(?:chpasswd|[^\n|]{0,100}--password-stdin)"
    ),
    "echo -n": re.compile(
        r"echo -n [\"']?(?P<bare>[^\s\"'|]{6,128})(?P<value>(?!))?[\"']? ?\| ?base64"
    ),
    "mongo": re.compile(rf"mongo(?:sh|dump|restore|export|import)?{_ARGS} -p ?{_PW}"),
    "docker login": re.compile(rf"docker login{_ARGS} -p ?{_PW}"),
    "az login": re.compile(rf"az login{_ARGS} -p ?{_PW}"),
    "oc login": re.compile(rf"oc login{_ARGS} -p ?{_PW}"),
    "rabbitmqctl": re.compile(
        rf"rabbitmqctl (?:-\S{{1,40}} ){{0,4}}(?:add_user|change_password) [\"']?\S{{1,64}} {_PW}"
    ),
    "htpasswd": re.compile(rf"htpasswd -\w{{0,6}}b\w{{0,6}} \S{{1,80}} \S{{1,64}} {_PW}"),
    "smbclient": re.compile(
        rf"smbclient{_ARGS} -U ?[\"']?[\w.\\/@-]{{1,64}}%(?P<value>[^\s\"']{{4,128}})"
    ),
    "net use": re.compile(rf"net use{_ARGS} /user:\S{{1,64}} {_PW}", re.IGNORECASE),
    "net use ": re.compile(
        r"net use \S{1,80} \S{1,160} [\"']?(?P<value>(?!/)[^\s\"'|;]{4,128})[\"']? /user:",
        re.IGNORECASE,
    ),
    "ldap": re.compile(rf"ldap(?:search|add|modify|delete|passwd|whoami|compare){_ARGS} -w ?{_PW}"),
    "openssl": re.compile(rf"openssl{_ARGS} -pass(?:in|out)? pass:(?P<value>[^\s\"']{{4,128}})"),
    "zip ": re.compile(rf"zip{_ARGS} -P ?{_PW}"),
    ":5432:": re.compile(r":5432:[\w*.-]{1,64}:[\w.-]{1,64}:(?P<value>[^\s:\"']{4,128})(?=\s|\Z)"),
    ":*:": re.compile(r":\*:[\w*.-]{1,64}:[\w.-]{1,64}:(?P<value>[^\s:\"']{4,128})(?=\s|\Z)"),
    "identified by": re.compile(
        r"identified by (?:password )?(?:[\"'](?P<value>[^\"'\n]{1,128})|"
        r"(?P<bare>[\w$#!@%^&*+-]{4,64})(?=[;\s]|\Z))",
        re.IGNORECASE,
    ),
    "identified with": re.compile(
        r"identified with [\"'`]?\w{1,40}[\"'`]? (?:by|as) [\"'](?P<value>[^\"'\n]{1,128})",
        re.IGNORECASE,
    ),
    " on >": re.compile(r" on >(?P<value>[^\s\"'=][^\s\"']{3,127})(?=[ ][~+&-])"),
    "totp(": re.compile(r"totp\(\s{0,8}[\"'](?P<value>[A-Z2-7]{16,128})=*[\"']", re.IGNORECASE),
    "fernet(": re.compile(r"Fernet\(\s{0,8}b?[\"'](?P<value>[\w-]{43}=)[\"']", re.IGNORECASE),
    "hmac.new(": re.compile(
        r"hmac\.new\((?:\s{0,8}(?:key=)?b?|[\w.]{1,30}, ?\[\]byte\()"
        r"[\"'](?P<value>[^\"'\n]{8,256})[\"']",
        re.IGNORECASE,
    ),
    "createhmac(": re.compile(
        r"createHmac\([\"'][\w-]{1,20}[\"'], ?[\"'](?P<value>[^\"'\n]{8,256})[\"']", re.IGNORECASE
    ),
    "aes.new(": re.compile(
        r"aes\.new\(\s{0,8}b?[\"'](?P<value>[^\"'\n]{16,64})[\"']", re.IGNORECASE
    ),
    "cipheriv(": re.compile(
        r"cipheriv\([\"'][\w-]{1,20}[\"'], ?[\"'](?P<value>[^\"'\n]{16,64})[\"']", re.IGNORECASE
    ),
    "snyk auth": re.compile(r"snyk auth (?P<value>[0-9a-f-]{36})(?![\w-])"),
    "bcrypt.": re.compile(
        r"bcrypt\.(?:hash|hash_?sync|hashpw|compare|compare_?sync|checkpw|GenerateFromPassword)\("
        r"\s{0,8}(?:\[\]byte\(|b)?[\"'](?P<value>[^\"'\n]{4,128})[\"']",
        re.IGNORECASE,
    ),
    "encoder.encode(": re.compile(
        r"encoder\.encode\(\"(?P<bare>[^\"\n]{6,128})(?P<value>(?!))?\"\)", re.IGNORECASE
    ),
    "check_password(": re.compile(rf"check_password\(\s{{0,8}}{_TEXT}"),
    ".authenticate(": re.compile(
        rf"\.authenticate\(\s{{0,8}}(?:[\"'][^\"'\n]{{1,64}}[\"'], ?)?{_TEXT}"
    ),
    ".basic(": re.compile(rf"\.basic\(\s{{0,8}}{_USER_AND}"),
    "credentials(": re.compile(rf"credentials\(\s{{0,8}}{_USER_AND}", re.IGNORECASE),
    "sp_addlogin": re.compile(
        r"sp_addlogin N?'[^'\n]{1,64}', ?N?'(?P<value>[^'\n]{4,128})'", re.IGNORECASE
    ),
    "stats auth ": re.compile(r"stats auth [\w.@-]{1,64}:(?P<value>\S{4,128})"),
    "password_verify(": re.compile(rf"password_verify\(\s{{0,8}}{_TEXT}"),
    "make_password(": re.compile(rf"make_password\(\s{{0,8}}{_TEXT}"),
    "passwordauthentication(": re.compile(
        rf"PasswordAuthentication\(\s{{0,8}}{_USER_AND}", re.IGNORECASE
    ),
    "create_user(": re.compile(rf"create_user\(\s{{0,8}}{_USER_MAIL_AND}"),
    "create_superuser(": re.compile(rf"create_superuser\(\s{{0,8}}{_USER_MAIL_AND}"),
    "withemailandpassword(": re.compile(
        rf"WithEmailAndPassword\((?:\w{{1,30}}, ?)?{_USER_AND}", re.IGNORECASE
    ),
    **dict.fromkeys(("assertequal", "assert_equal", "assertthat", "assert.equal"), _EXPECTED),
    **dict.fromkeys(
        (
            "assertequal(",
            "assert_equal(",
            "assertequals(",
            "assert.equal(",
            "require.equal(",
            "assert_eq!(",
            "asserteq(",
            "assertis(",
            "assert_equals(",
            "assert.areequal(",
            "assert.strictequal(",
            "assertsame(",
            "assertnotequal(",
            "assertin(",
            "assertnotin(",
        ),
        _FOUND,
    ),
    **dict.fromkeys(("require.equal", "assert_eq!", "assert.areequal"), _EXPECTED),
    **dict.fromkeys(
        (
            "user(",
            "users(",
            "user.new(",
            'login("',
            "login('",
            "signup(",
            "sign_up(",
            "signin(",
            "sign_in(",
            "authenticate(",
            "loginas(",
            "login_as(",
            "log_in(",
            "member(",
        ),
        _MAKES_USER,
    ),
    **dict.fromkeys(
        (
            "password(",
            "passwordhash(",
            "password_hash(",
            "passphrase(",
            "password_strength(",
            "passwordvalid(",
        ),
        _OF_PASSWORD,
    ),
    **dict.fromkeys(
        ("creds = ", "creds=", "credentials = ", "credentials=", "creds: ", "credentials: "),
        re.compile(rf"cred(?:ential)?s(?: ?=|:) ?[\[(]{_USER_CHOSEN}", re.IGNORECASE),
    ),
    "= password(": re.compile(r"= PASSWORD\([\"'](?P<value>[^\"'\n]{1,128})"),
    "auth=(": re.compile(rf"auth=\({_USER_AND}"),
    "auth = (": re.compile(rf"auth = \({_USER_AND}"),
    "getconnection(": re.compile(rf"getConnection\([^,\n]{{1,160}}, ?{_USER_AND}"),
    "convertto-securestring": re.compile(
        r"ConvertTo-SecureString (?:-String )?[\"'](?P<value>[^\"'\n]{1,128})", re.IGNORECASE
    ),
    "net user": re.compile(rf"net user [\w.-]{{1,64}} {_PW}", re.IGNORECASE),
    "thin:": re.compile(r"thin:[\w$#]{1,30}/(?P<value>[^\s\"'/@]{1,64})@"),
    "echo ": re.compile(
        r"echo (?:-n )?[\"']?(?:[\w.-]{1,32}:(?=[^\n]{1,140}chpasswd))?"
        r"(?P<value>[^\s\"'|]{1,128})[\"']? ?\| ?"
        r"(?:sudo -S|kinit\b|"
        r"[^\n|]{0,100}(?:--password-stdin|passwd --stdin|--passphrase-fd|chpasswd))"
    ),
}


#: What every text holds in which anything is found here.
TRIGGERS: Final = tuple(_PROGRAMS)
_PART: Final = part_of(TRIGGERS)
_SEARCH: Final = AhoCorasick(TRIGGERS, implementation=Implementation.DFA)
_SHAPES: Final = tuple(_PROGRAMS.values())


def _states(source: Source, at: int) -> bool:
    """`IDENTIFIED BY` of SQL, and not `items identified by 'name'`."""
    return _STATEMENT.search(source.text, max(0, at - _STATEMENT_REACH), at) is not None


_STATEMENT: Final = re.compile(r"\b(?:create|alter|grant|set)\b|['\"`%]\s*\Z", re.IGNORECASE)
_STATEMENT_REACH: Final = 160


def commands(source: Source, judge: Judge) -> Iterator[Span]:
    """Passwords that programs take by a short option or as `user:password`."""
    if not source.may_hold_words(_PART):
        return
    text = source.folded
    judged: dict[tuple[str, str], bool] = {}  # commands repeat
    for index, at, _end in _SEARCH.find_matches_as_indexes(source.folded, overlapping=True):
        match = _SHAPES[index].match(source.text, at)
        if match is None:
            continue
        part = "value" if match["value"] is not None else "bare"
        if part == "value" and text.startswith("identified", at) and not _states(source, at):
            continue
        value = match[part]
        known = judged.get((part, value))
        if known is None:
            known = (part == "value" or is_chosen(value)) and _is_password(value, judge)
            judged[part, value] = known
        if known:
            yield Span(match.start(part), match.end(part), "SECRET", 0.8, "command")


def _is_password(value: str, judge: Judge) -> bool:
    return (
        len(value) >= SHORTEST
        and not judge.is_placeholder("", value)
        and value[0] not in "$([{<-"
        and not (value[0] == "%" and value[-1] == "%")
        and value.lower() not in CONSTANTS
    )
