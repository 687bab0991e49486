"""Secrets in the surroundings agents meet them in: tool output with line numbers, texts inside
strings, pages, patches, fallbacks in code; and what stands in the same places and is none.

Every key and password is made when the test runs.
"""

from __future__ import annotations

import base64
import json
import random
import string

import pytest

from gateway.redaction.detectors.engine import Detector
from gateway.redaction.detectors.values import is_stand_in
from gateway.redaction.policy_file import load_policy

SECRETS = {"SECRET", "APIKEY", "JWT", "PRIVATEKEY"}
WORD = string.ascii_letters + string.digits


@pytest.fixture(scope="module")
def detector() -> Detector:
    return Detector(load_policy())


def made(seed: str, size: int = 32, alphabet: str = WORD) -> str:
    rng = random.Random(seed)
    return "q7" + "".join(rng.choice(alphabet) for _ in range(size - 2))


def found(detector: Detector, text: str) -> list[str]:
    return [text[s.start : s.end] for s in detector.find(text) if s.kind in SECRETS]


#: `@` is the value, `%` the name of a secret.
SURROUNDINGS = [
    '@tool write {"content":"…\\n%=@\\nHe said…"}', '{"content":"A=1\\r\\n%=@\\r\\nB=2"}',
    '{"content":"a: 1\\n  %: @\\n  b: 2\\n"}', '{\\"content\\":\\"A=1\\\\n%=@\\\\nB=2\\"}',
    'print("%=@\\tB=2")', '"x\\n% = @\\ny = 1"', "%=&quot;@&quot;", "&quot;%&quot;: &quot;@&quot;",
    "     1→%=@\n     2→B=1", "  14\t  %: @", 'config/app.yml:22:  %: "@"', "./.env:5:%=@",
    "%: |\\n  @\\n", "- **%**: `@`", "**%:** `@`", "**%:** @", "<b>%:</b> @", "1. Set `%` to `@`",
    "% → `@`", "<li>%: <code>@</code></li>", '% = os.environ.get("X") or "@"',
    "% = os.getenv('X', '@')", "%: process.env.X ?? '@',", "% = ENV['X'] || '@'",
    '% = System.getenv("X") ?: "@"', "% = ('@')", '% = (\n    "@"\n)', "% = f'@'", '"%" to "@",',
    '{"%", "@"},', '{%, "@"}.', '(% . "@")', "expect(%).toBe('@')", "${%:-@}", "${%:@}",
    'multipart; name="%"\r\n\r\n@\r\n--b', '"%": {\n  "value": "@"\n}', "%:\n  value: @",
    '%:\n  default: "@"', '  ["%"]=>\n  string(12) "@"', "<c:%>@</c:%>",
    '<data name="%"><value>@</value></data>', '<bean><property name="%"><value>@</value></bean>',
    "<env-entry-name>%</env-entry-name><env-entry-value>@</env-entry-value>",
    'static %: &[u8] = b"@";', 'resValue "string", "%", "@"', "$ENV{%} = '@';",
    'Dim % As String = "@"', 'val %: String by lazy { "@" }', 'const std::string %{"@"};',
    'dotnet user-secrets set "%" "@"', 'aws ssm put-parameter --name /a/% --value "@"',
    "https://h.example/x?a=1&%=@#part", "%=@; export %",
]  # fmt: skip


@pytest.mark.parametrize("form", SURROUNDINGS)
@pytest.mark.parametrize("name", ["api_key", "DB_PASSWORD", "clientSecret"])
def test_a_value_is_found_and_nothing_beside_it(detector: Detector, form: str, name: str) -> None:
    value = made(form + name, 24)
    text = form.replace("%", name).replace("@", value)
    assert value in found(detector, text), found(detector, text)
    assert all(
        part.strip("\"'`") in (value, "q7") or part == value for part in found(detector, text)
    )


PREFIXES = ["ghp_", "npm_", "gsk_", "sk-ant-api03-", "sk_live_", "dckr_pat_"]
SIZES = {"npm_": 36, "gsk_": 52, "dckr_pat_": 27}


@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize("word", ["YOUR", "EXAMPLE", "PLACEHOLDER", "REDACTED", "xxx", "000000"])
def test_a_word_that_chance_wrote_into_a_key_saves_no_key(
    detector: Detector, prefix: str, word: str
) -> None:
    body = made(prefix + word, SIZES.get(prefix, 36))
    key = prefix + body[:9] + word + body[9 + len(word) :]
    assert found(detector, f"the server said {key} is new") == [key]


@pytest.mark.parametrize(
    "body",
    ["YOUR_TOKEN_HERE", "x" * 36, "YOURKEYHERE1234567890", "your-api-key", "0" * 36,
     "IOSFODNN7EXAMPLE", "insert-token-here", "not-a-real-token"],
)  # fmt: skip
def test_what_documentation_writes_for_a_key_is_a_stand_in(body: str) -> None:
    assert is_stand_in(body)


DER = {
    "pkcs1": "308204a40201000282010100", "pkcs8": "308204be020100300d06092a864886f70d010101",
    "pkcs12": "30820a1102010330 8209d706".replace(" ", ""),
}  # fmt: skip


@pytest.mark.parametrize("form", DER)
@pytest.mark.parametrize("around", ["key: {}\n", '{{"k": "{}"}}', "client-key-data: {}\n"])
def test_a_private_key_without_its_armor_is_found(
    detector: Detector, form: str, around: str
) -> None:
    raw = bytes.fromhex(DER[form]) + random.Random(form).randbytes(900)
    key = base64.b64encode(raw).decode().rstrip("=")
    assert found(detector, around.format(key)) == [key]


def test_an_armored_key_in_base64_is_found(detector: Detector) -> None:
    kinds = ["RSA PRIVATE KEY", "PRIVATE KEY", "EC PRIVATE KEY", "OPENSSH PRIVATE KEY"]
    for kind in kinds:
        armored = f"-----BEGIN {kind}-----\n{made(kind, 400)}\n-----END {kind}-----\n"
        key = base64.b64encode(armored.encode()).decode()
        assert found(detector, f"client-key-data: {key}\n") == [key]


def test_only_the_private_members_of_a_json_web_key_are_secrets(detector: Detector) -> None:
    public = {"kty": "RSA", "n": made("n", 300), "e": "AQAB", "kid": "a1"}
    private = {name: made(name, 100) for name in ("d", "p", "q", "dp", "dq", "qi")}
    assert found(detector, json.dumps(public)) == []
    assert found(detector, json.dumps(public | private)) == list(private.values())
    assert found(detector, json.dumps(json.dumps(public | private))) == list(private.values())
    assert found(detector, json.dumps({"d": "M10-20L30-40H50V60Z10", "q": "a" * 20})) == []


@pytest.mark.parametrize("break_", ["<br>\n", "<br/>", "\\n", "\n> ", "\r\n"])
def test_a_key_is_found_whatever_ends_its_lines(detector: Detector, break_: str) -> None:
    lines = [made(str(n), 64) for n in range(4)]
    key = break_.join(["-----BEGIN PRIVATE KEY-----", *lines, "-----END PRIVATE KEY-----"])
    assert found(detector, f"<pre>{key}</pre>") == [key]


def test_putty_lines_end_where_the_next_field_begins(detector: Detector) -> None:
    text = (
        f"Private-Lines: 1\n{made('ppk', 64)}\nPrivate-MAC: {made('mac', 64, '0123456789abcdef')}\n"
    )
    assert [part.strip() for part in found(detector, text)] == [made("ppk", 64)]


CLEAN = [
    'print("Password:", end=" ")', "x ? \"password\" : \"text\"",
    't="password"===i?"password":"text"',
    'console.log("Decoded token:",e);let t=e.exp,r=1;' + "a" * 300,
    "{token:h}=C.useToken(),[v]=(0,w)",
    "new X({apiKey:r,baseURL:l,dangerouslyAllowBrowser:!0})", "{email:!0,password:!0,range:!0}",
    "$password = Read-Host -AsSecureString", "password = :password", "password:hover{color:red}",
    '"password": "^(?=.*[A-Z])[A-Za-z\\\\d@$!%*?&]{8,}$"', "password: /^[A-Za-z\\d]{8,32}$/,",
    '"password": "Mot de passe",', '"password": "Wachtwoord",', '"password": "Κωδικός",',
    "password: 'Password must contain 1 uppercase, 1 number',", '"password": "Passwort ändern",',
    '"password": "min. 8 characters",', "'password' => 'required|min:8|confirmed',",
    'X_AWS_EC2_METADATA_TOKEN = "x-aws-ec2-metadata-token"', "STORAGE_KEY = 'app:v1:sidebar-width'",
    'const STORAGE_KEY = "todo-list-items-v1";', '["oauth2-token"]: OAuth2TokenAuth$inboundSchema,',
    "password = passphrase_val\n", 'userpass = username + b":" + password\n',
    "POSTGRES_PASSWORD=${POSTGRES_PASSWORD:?message2}", "UnexpectedToken: 'Unexpected token %0',",
    "password: Column<String>,", "const apiKey = apiKeyFromAuthStorage ??", "token: Token2,",
    "GITHUB_TOKEN=ghp_" + "x" * 36, "API_KEY=sk-your-key", "STRIPE_KEY=pk_test_" + made("pk", 40),
    "my password's length is low",
    "the password was set to expire", "password from env to vault", "mysqladmin -u root password",
    'password = os.getenv("PASSWORD", "password")', 'token = os.environ.get("TOKEN") or ""',
    "{token, Value} = next(Tokens).", '{password, "Password"}.', '"password" to "Password",',
    "    12→  password: str", "src/a.py:13:token = next(it)", '{"text":"Enter password:\\n> "}',
    'publicKeyToken="1fc8b3b9a1e18e3b"', '<property name="password"><value>${p}</value>',
]  # fmt: skip


@pytest.mark.parametrize("text", CLEAN)
def test_code_labels_and_patterns_are_left_alone(detector: Detector, text: str) -> None:
    assert found(detector, text) == []


@pytest.mark.parametrize(
    ("form", "value"),
    [("password: @\n", "Welcome1"), ("password: @\n", "BlueRiver2798"),
    ("use @ as the password", "Welcome1"),
     ("the root password was changed to @ today", "BlueRiver40!"),
     ("my password's @", "canyon71281"),
     ("hasło to @", "ksiezyc77"), ("Tu contraseña es @", "dragon1"), ("heslo je @", "0987654321"),
     ("mot de passe temporaire : @", "canyon948"), ("the password (@) still works", "otter-743"),
     ("rotated the db password from @ to x9!kkqq2", "MqdJ0t0zBLNo"),
     ("ο κωδικός μου είναι @", "IcyCanyon19"),
     ("creds are admin:@", "rusty-horse-90"), ("Login with admin / @", "silver-kettle-15"),
     ("rootpw = @\n", "kestrel77"), ("plink -pw @ a@h", "misty_otter59"),
     ("cqlsh -u a -p @ h", "IcyCanyon19"),
     ("echo @ | passwd --stdin bob", "misty_otter59"), ("chpasswd <<< 'bob:@'", "kestrelwing"),
     ("mysqldump -u a -p'@' d", "misty_otter59"), ("net use z: //h/s @ /user:a", "misty_otter59"),
     ("wpa_passphrase net @", "misty_otter59")],
)  # fmt: skip
def test_a_password_people_choose_is_found_where_they_write_it(
    detector: Detector, form: str, value: str
) -> None:
    head, tail = form.split("@", 1)
    assert value in found(detector, head + value + tail)
