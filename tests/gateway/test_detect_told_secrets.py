"""Passwords that people tell each other and that tests hold, by the kind of sentence or call they
stand in: every kind with passwords of several shapes, and what looks like each and is none."""

from __future__ import annotations

import itertools

import pytest

from gateway.redaction.detectors.engine import Detector
from gateway.redaction.policy_file import load_policy

#: As people choose them: a word with a sign, digits for letters, words and a number.
CHOSEN = ("Winter2024!", "Gr4nite!moss", "Blue-Falcon-77", "C0bra.Kai")
KINDS = {
    "behind a verb, however it is put": (
        "the password is now {}, please rotate",
        "The keystore password used to be {}, it still is on node 4.",
        "the db password has been changed to {} today",
        "his password is still {}, i checked",
        "the password was reset to {} last night",
        "I forgot to say: the password you need is {}",
        "the password itself is {}",
    ),
    "in other languages": (
        "Das neue Passwort lautet jetzt {}.",
        "Das Passwort wurde auf {} geändert",
        "Le mot de passe est maintenant {}",
        "La contraseña ha sido cambiada a {}",
        "La nuova password è ora {}",
        "Het wachtwoord is gewijzigd naar {}",
        "A nova senha foi alterada para {}",
        "Hasło jest nadal {}",
        "Lösenordet är nu {}",
    ),
    "before its word": (
        "Try {} as password, then call me.",
        "For the demo account use {} as a password",
        'And I enter "{}" into the password field',
        "Just type {} at the password prompt.",
    ),
    "further on in the sentence": (
        "ssh to the host, when prompted for a password type {} and press enter.",
        "it asks for a passphrase, enter {} there",
        "export the password first, it's {}.",
        "Connect as postgres with password {} to port 5433.",
        "ssh ops@10.0.0.5 (password {})",
    ),
    "as the answer to a question": (
        "> What's the password again?\n{}",
        "Q: what is the wifi password?\nA: {}",
        "anna: whats the pw for grafana\nbob: {}",
        "bob: do you have the admin password?\namy: yes, {}",
        "what's the root password on db2? it's {}",
        "what was the pw again? → {}",
        "sudo password on that VM? {}",
    ),
    "beside its user": (
        "Default login: `admin` / `{}`",
        "creds: jsmith / {}",
        "- Grafana: admin / {}",
        "User / Pass: monitor / {}",
        "- jenkins: user deploy, pass {}",
        "the pass was changed to {} after the incident",
    ),
    "in the doubles of tests": (
        'with mock.patch("app.db.get_password", return_value="{}"):',
        'mock_vault.read_secret.return_value = "{}"',
        'when(config.getPassword()).thenReturn("{}");',
        'Mockito.when(env.getProperty("db.password")).thenReturn("{}");',
        "jest.spyOn(auth, 'getPassword').mockReturnValue('{}');",
        'allow(config).to receive(:password).and_return("{}")',
        'monkeypatch.setattr(getpass, "getpass", lambda _: "{}")',
        'getpass.getpass = lambda prompt="": "{}"',
        'child.expect("Password:"); child.sendline("{}")',
        'child.expect("[Pp]assword: ")\nchild.send("{}\\n")',
    ),
    "in what tests expect": (
        'self.assertEqual(settings.SMTP_PASSWORD, "{}")',
        'self.assertNotEqual(user.password, "{}")',
        'require.Equal(t, "{}", cfg.Password)',
        'assert_eq!(cfg.password, "{}");',
        'assert store.get("db_password") == "{}"',
        'assertThat(config.getPassword()).isEqualTo("{}");',
        'expect(config.password).to eq("{}")',
        'assert verify_password("{}", hashed)',
    ),
    "in what tests call": (
        'final user = new User("dora", "{}");',
        'user = User("dora", "dora@corp.example", "{}")',
        "const creds = ['alice', '{}'];",
        'runner.invoke(cli, ["login", "--user", "nia", "--password", "{}"])',
        'subprocess.run(["mysql", "-uroot", "-p{}"])',
        'When I fill in "Password" with "{}"',
        '@pytest.mark.parametrize("user,password", [("bob", "{}"), ("eve", "")])',
        '@pytest.mark.parametrize(\n    ("login", "passwd", "ok"),\n    [("ann", "{}", True)],\n)',
        '@pytest.mark.parametrize("password", ["{}"])',
    ),
}
CODES = (
    "my pin is {}, tell the courier",
    "PIN for the door is {}",
    "Meine PIN ist {}",
    "The gate code is {}.",
    "luggage code: {}",
    "the alarm code for the garage is now {}",
    "Türcode: {}",
    "code de la porte : {}",
)
LEFT = (
    # what is said of a password, in the languages above
    "the password used to be shorter, it still is on node 4.",
    "The password you entered is incorrect.",
    "The password itself is encrypted.",
    "Das Passwort ist noch gültig.",
    "Le mot de passe est maintenant obligatoire.",
    "La contraseña ha sido cambiada a mano",
    "Het wachtwoord is verlopen",
    "Hasło jest nieprawidłowe",
    "Lösenordet är ogiltigt",
    "clave: valor",
    # what goes on behind the word and is none
    "use SHA-256 as password hash",
    "if the password is bytes, use Argon2id for it",
    "log in with password authentication over TLS1.3",
    "hash the password, bcrypt2b is the default",
    "with password sha512crypt and salt",
    "Forgot password?\nStep2Form is shown.",
    "> What's the password again?\nI don't know, ask Peter.",
    "Q: what is the wifi password?\nA: it's on the fridge",
    "What is the password policy?\nhttps://corp.example/policy2",
    "password?\nuser2Form",
    # users and roles
    "login admin / user roles page is broken",
    "root and admin2 are members of wheel",
    "account: admin / editor roles",
    "sign in with GitHub and GitLab15",
    "first the pass over 1200 runs, then the pass rate",
    # numbers
    "The pin is connected to 4.7k",
    "pin is ${current:-<unset>}, build is ready",
    "PIN for the door is at the front desk.",
    "the unlock code is at line 12",
    "the combination is 3-4 items",
    # tests
    'when(config.getPassword()).thenReturn("PASSWORD");',
    "when(config.getPassword()).thenReturn(null);",
    'mocker.patch("app.users.get_user", return_value="anna-77x")',
    'mocker.patch("app.auth.get_token", return_value=TOKEN)',
    '@pytest.mark.parametrize("user,password", [("bob", ""), ("eve", "short")])',
    '@pytest.mark.parametrize("user,path", [("bob", "a1/b2-c3")])',
    'runner.invoke(cli, ["login", "--password", password])',
    'child.expect("Name:"); child.sendline("anna-77x")',
    'user = User("dora", "dora2@corp.example")',
    'self.assertEqual(form.errors["password"], ["This field is required."])',
    'assert set_password_strength("strong")',
    'credentials = ["username", "password2"]',
    'register("event2", "handler3")',
    'account("main", "EUR2024")',
    'authenticate("github.com", "oauth2-proxy")',
    'validate_password("password", user=u1)',
    '@pytest.mark.parametrize("token,kind", [("abc", "NAME"), ("1", "NUMBER")])',
    "What's the password length? 12-16 characters.",
    "did you change the password?\nPR-4471 does that.",
    "is the password cached? see auth_cache2.py",
    "with password auth disabled in sshd_config2",
    "Type your password at the prompt, then press Enter to continue to step2b.",
)


@pytest.fixture(scope="module")
def detector() -> Detector:
    return Detector(load_policy())


def found(detector: Detector, text: str) -> list[str]:
    return [text[s.start : s.end] for s in detector.find(text) if s.kind == "SECRET"]


@pytest.mark.parametrize(
    ("kind", "form"), [(kind, form) for kind, forms in KINDS.items() for form in forms]
)
@pytest.mark.parametrize("value", CHOSEN)
def test_a_password_is_found_where_people_and_tests_tell_it(
    detector: Detector, kind: str, form: str, value: str
) -> None:
    if form.partition("{")[0][-1:] in ("'", '"') and "." in value:
        value = value.replace(".", "_")  # a member of something, in source code
    assert found(detector, form.replace("{}", value)) == [value], kind


@pytest.mark.parametrize(
    ("form", "value"), list(itertools.product(CODES, ("4471", "8823#", "550912")))
)
def test_the_number_that_opens_something_is_found(
    detector: Detector, form: str, value: str
) -> None:
    text = form.replace("{}", value)
    assert [v.rstrip("#") for v in found(detector, text)] == [value.rstrip("#")]


@pytest.mark.parametrize("text", LEFT)
def test_what_only_looks_like_it_is_left(detector: Detector, text: str) -> None:
    assert found(detector, text) == []


def test_two_passwords_told_together_are_both_found(detector: Detector) -> None:
    for text in (
        "The password for alice is W0nder.Land and for bob it is Build3r!.",
        "Try p@ssw0rd!2020 as password, if that fails use p@ssw0rd!2021.",
        "The gate code is 4490# and the alarm code is 7731.",
    ):
        assert len(found(detector, text)) == 2, text


def test_a_told_password_is_found_again_wherever_its_line_repeats(detector: Detector) -> None:
    for line in ("the password is Winter24, ok\n", "sudo password on that VM? ubuntu123\n",
                 "the wifi password, it's Gr4nite!moss\n", "pw: hunter2z!\n"):  # fmt: skip
        assert len(found(detector, line * 40)) == 40, line


def test_a_list_of_a_recorded_header_is_read_without_quotes(detector: Detector) -> None:
    text = "    headers:\n      X-Api-Key: [9f3bc21a77de4410]\n      Accept: [application/json]\n"
    assert found(detector, text) == ["9f3bc21a77de4410"]
