"""Words that tell a name from other words written with a capital.

Owns three lists, all in lower case: words that begin sentences, words of the trade that are always
written with a capital, and first names of people in Europe, the Americas, Asia and North Africa.
Invariant: a word in `COMMON` may still be a name inside a sentence; one in `TRADE` never is alone.
Used by `ner`, to leave out lines that hold no name and to judge what the model is unsure of, and by
the rule for names without a model, `detectors.person_names`.
"""

from __future__ import annotations

from typing import Final

_COMMON = """
abort above absolute abstract accelerate accept acceptable accepted accepts access accessing
according account accumulate acquire action acts actual actually adapted add added adding
additional additionally address adds adjacency adjust advance advanced after algorithm algorithms
alias aliases align all allocate allow allowed allows almost along alpha already also alternate
alternative alternatively although always among amount analogous analyze and annotated another any
anything apart apparently append appending applications applied applies apply applying approximate
arbitrary are argument arguments arithmetic array arrays ask assert assign assignment associate
assume assumes assuming assumptions asymptotic async asynchronous atomic attach attachment attempt
attempted attempting attempts attribute attributes augment auth authentication auto automatic
automatically auxiliary available average avoid avoids axes axis back backend background backport
backward backwards bad bail bare base based basic basically batch because before begin beginning
behaves behavior being below bernoulli best beta better binary bind bit blank block blocks body
boolean bootstrap borrowed both botocore bound boundary bounds bracket break broadcast
broadcasting bucket buffer buffered build building builds built builtin builtins but bypass byte
bytes cache cached caching calculate calculated calculates calculating calculation call callable
callback callbacks called caller callers calling calls can cancel cannot canonical capture care
cartesian case cast casting catch catching center centered centrality certain certificate change
changed changes changing character characters chebyshev check checking checks checksum child
choice cholesky choose choosing chop chord chunk chunks circular class classes clean cleanup clear
clears click client clients clip close closes closing cluster code coefficient coefficients coerce
collapse collect collection collections collects color colors column columns combine combined
combining comma command commands comment comments common commonly compare compared compares
comparing comparison comparisons compatibility compatible compile compiled compiler complementary
complete completion complex component components compose composition compress compressed
computation compute computed computes computing concatenate concrete condition conditional
conditions confidence config configuration configure confirm connect connection consider console
constant constants constraint constraints construct constructed constructing constructor
constructs consume container containers contains content context continuation continue continuous
contributed control controls convenience convergence conversion convert converting converts
coordinate coordinates copied copies copy copying copyright core coroutine correct correlation
corresponding corresponds cosine could count counter counts covariance coverage covered covers
create created creates creating creation credentials cross cumulative current currently cursor
curvature custom customize cutoff cycle cython dask data date dates deal dealing debug decide
decides decimal declare decode decorate decorator decorators decrease decrement dedicated default
defaulting defaults defer deferred define defined defines defining definite definition definitions
degenerate degree degrees delay delayed delegate delete deleting deliberately delta denominator
denotes dense dependent depending deprecated depth derivative derivatives derive derived describes
description design desired despite destination details detect determine determines development
diagnostic diagonal dict dictionaries dictionary did diff differences different differential
differentiate dimension dimensional dimensions direct directed direction directives directly
directories directory disable disabled disables disabling disallow discard discovery discrete
dispatch display distance distances distributed distribution distutils divide division document
documentation documents docutils does doing domain done dot double download draw driver drop due
dummy dump duplicate during dynamic dynamically each early edge edgelist edges edit effective
effectively efficient efficiently eigenvalue eigenvalues either element elements elementwise
eliminate else emit emitted empty emulate enable enabled enables enabling encode encodes encoding
end ending enforce ensure ensures enter entering entity entries entropy entry enum environment
epoch equal equality equivalent erase error errors escape escaped especially essentially establish
estimate estimated euclidean euler evaluate evaluated evaluates evaluating evaluation even event
events eventually every everything exact exactly example examples except exception exceptions
exclude excluded excluding execute executing execution existing exit exiting expand expansion
expect expectation expected expecting expects explicit explicitly exponent exponential export
expose expr express expression expressions extend extended extension extensions external extra
extract extracts factor factors factory fail failed failing fails failure fake fall fallback
falling falls false fast faster features feed fetch field fields figure file filename filenames
files fill filling filter filtered filters final finalize finally find finding finds finished
finite first fit fits fix fixed fixes fixture flag flags flask flat flatten flip float floating
flow flush focus follow following follows font for force forces form format formatted formatter
formatting fortran forward found four fourth fraction fractional free freeze frequency from frozen
full fully function functions further future gain gamma gate gather gaussian general generalized
generally generate generated generates generating generator generators generic geometric geometry
get gets getting git give given gives global good google got grab gradient graph graphs greater
group guaranteed guard guess hack half handle handled handler handlers handles handling happens
hard hartree has hash hashes have having header headers height help helper helpers hence here
hermite hermitian heuristic hex hexadecimal hide high higher highlight highlighter histogram
history hold holds hook hooks hopefully horizontal host how however hyperbolic hypothesis ideally
identical identifier identifies identify identity ignore ignored ignoring image imaginary
implement implementation implemented implementing implements implicit implicitly import important
imported importing imports improve include includes including incomplete increase increasing
increment indent indentation independent index indexes indexing indicate indicates indicator
indices indirect individual infer infinite infinity information inherit inheritance inherits init
initial initialization initialize initially inject inline inner input inputs insert inserts inside
inspect inspired install instance instances instantiate instead integer integers integral
integrals integrate integration intended interaction intercept interface intermediate internal
internally international interpolate interpolated interpolation interpret interpretation
intersection interval intervals intrinsic introspection invalid inverse invert invocation invoke
isolated issue item items iterable iterables iterate iterates iterating iteration iteratively
iterator its jacobi jacobian jedi join journal jump just justify keep keeping keeps kept kernel
key keys keyword keywords kill kind known label labels laguerre lambda language laplace large
larger largest last latency later lazily lazy leading least leave leaving left legacy legal
legendre length less let lets level lexer lexers libraries library license licensed like limit
limits line linear lines link links linux list lists literal load loading loads local locate
location locations lock log logarithm logarithmic logger logging logic logical logs long longer
look looking looks lookup loop low lower macro made magic magnitude main mainly maintain major
make makes making mandatory manually many map mapping maps mark marker marks mask masked match
matched matcher matches matching mathematical matplotlib matrices matrix max maximal maximum may
maybe mean medium member members memory menu merge merged message messages metadata method methods
might mimic mimics mind minimal minimization minimize minimum mirrors mismatch mismatched missing
mixin mock mode model modeled models modifications modified modifies modify module modules more
most mostly moto mount mouse move moved moves mpmath much multigraph multiple multiplication
multiply multivariate must mutable mutually mypy naive name named names namespace native necessary
need needed needs negate negative neither nested network networkx never new newline newton next
node nodes none nonlinear norm normal normalization normalize normalized normally not note notes
nothing notice notify now null number numbers numerator numeric numerical numpy object objective
objects obtain obviously odd offset offsets often old older omit once one only opaque opcodes open
opening operations operator operators optimal optimization optimize optimized option optional
optionally options order ordered ordering original originally other others otherwise our output
outside overall overflow overridden override overrides overwrite pack package packages pad padded
padding pagination pair parameter parameters parent parentheses parse parsed parser parses parsing
part partial particle partition pass passed passes passing paste patch path paths pattern patterns
payload per percent percentage perform performance performs perhaps permission permutation phone
physical pick pickle pickles pickling piecewise place placeholder placement plain plaintext
platform play please plot plots plotting plugins point points poles policy polygamma polynomial
pop populate populated port portions position positional positions positive possible possibly
potential power precedence precision predefined predicate prefer preferred prefix prepare prepend
present preserve preserves presolve pretty prevent previous previously primary primitive print
printing prints prior priority private probability probably problem process processes processor
produce produces product profile progress project prompt propagate proper properties property
protect protocol provide provided provides providing proxy prune public pull pure push put
pydantic pygments pytest python quadratic quadrature quality quantile quaternion query queue quick
quit quotes radius raise raised raises raising random randomly range ranges rank rather rational
raw read reader reading reads real reason reasons rebuild receive recognize recommended
reconstruct record recurse recursion recursive recursively redirect reduce reduces reduction ref
refactor refer reference references reflection refresh regardless regex regexes region register
registry regular reject relative release released releases relevant reload remaining remember
remote remove removed removes removing rename renamed render renderable reorder repeat repeated
repeatedly replace replaced replacement replaces report reporting represent representation
represented represents request requested requests require required requirements requires reraise
reserved reset resets reshape residual resolve resolved resolves resource response responses
restart restore restrict result results retrieve retry return returned returning returns reuse
reverse revert rewrite rewriting right roll root roots rotate rotation rotations round rounding
row rows rule rules run running runs runtime safe safety same sample samples sampling sanity save
saves say says scalar scalars scale scaled scales scaling scan schedule schema scheme scope scopes
scroll search searches second seconds secret see seek seems segment segments select selected
selection selects self send sending sends sent sentinel separate separator sequence sequences
serialize series server service session set sets setting setup setuptools several shape shared
shell shift short shortcut shortest shorthand should show shows shutdown sign signal signature
signed signs silence similar similarly simple simplification simplified simplifies simplify simply
simulate since sine single singular sink size sizes skip skipped skipping slice slices slow small
smaller smoothing snapshot socket solution solutions solve solves solving some something sometimes
sort sorted sorting source space spaces spacing sparse spec special specific specifically
specification specified specifies specify specifying speed sphinx spline split splits splitting
square stack stage standard start starting starts state statement statements states static
statistical statistics status step still stop stopping stops storage store stores storing stream
streaming strict strictly string strings strip strips structural structured structuring stuff
style styles subclass subclasses subject submit subsequent substitute substituting subtract such
suffix suitable sum super supply support supported supports suppose suppress survival swap switch
symbol symbolic symbols symmetric sync syntax system tab table tabs tag tags tail take taken takes
taking target task technically tell tells template temporarily temporary tensor term terminal
terminate termination terms test testing tests text that the their then theory there therefore
these they things think third this those though thread three threshold throw thrown throws thus
time timed timeout timeouts times timestamp title together toggle token tokenize tokens tolerance
too tools total trace traceback track tracks trailing transfer transform transformation
transformed transforms transition translate translated translation transpose traverse treat
treatment tree trial tried tries trigger trim trimmed trio trivial true truncate trust try trying
tuple tuples turn turns turtle twisted two type typed types typical typically unable undefined
under undirected undo unfortunately unicode union unique unit unitary univariate universal unix
unknown unless unlike unpack unrecognized unset unsigned unspecified unsupported until unused
unwrap update updated updates upgrade upload upon upper url usage use used useful useless user
users uses using usually utilities utility valid validate validates validation validator value
values variable variables variance various vector verbosity verifies verify verifying version
versions vertical very view views virtual visible visit wait waiting wake walk want warn warning
warnings was ways weight weighted weights what whatever when whenever where whereas whether which
while whitespace why widgets width wild will window windows with within without words work
workaround worker working works would wrap wrapped wrapper wrapping wraps write writes writing
written wrong yield yields you your zero zeros zip
"""
#: Ordinary words as they begin sentences of documentation, comments and mails.
COMMON: Final = frozenset(_COMMON.split())

_TRADE = """
abramowitz abs absender academic achternaam actions activity adgangskode adres adress adresse
africa african agent agreement airflow airy algebra algebraic all alpine also alt am amazon amd
american amsterdam an analysis anchor and android angle angles angular annals annotation annual
anruf anschrift ansible ant anthropic any apache apellido apellidos api app appell appendix apple
application approach approx approximation approximations apt arabic arch are area argentina args
arn arnoldi arrow artificial as ascii asian aspects assembler association asus at athens atom
attrs audio auftraggeber august australian austria austrian ausweis auth authority authorization
authorizer authorizers authors availability awaitable azure babel backup barcelona barrier bash
bazel be bedrock been beijing belgium benutzer benutzername berlin bernoulli bessel bestelling
bestellnummer bestellung binding binomial biology bitbucket blackman blink blob blueprint bokeh
book bool boolean booleans boost boston bounded box bra branch brazil brazilian breakpoint british
browser brussels budapest builder bulgaria bundle burgerservicenummer business but button by
calendar cambridge can canada canadian cancelled candidate canvas capital card cargo carmichael
cartella cartesian catalog category cauchy cdn celery cellulare centos central chain channel
chapter char charset chat chebyshev chef chi chicago chile china chinese choices cholesky chrome
chromium cipher circle cisco clang claude cliente clinica clipboard clock closure cloud clínica
cmake cocoa codes codex codice cognome colab collector colombia colon colorizer combinatorics
commande communications community commutator company complement completer complexity compound
computational computations computer conference configurable confluence conjugate constrained
consul contents contrasena contraseña contribuinte contributor contributors convex cookie cookies
copenhagen copilot cordialement corporate corporation cost could coulomb cpu credential croatia
cryptographic cryptography css ctrl cuda curve cygwin cypress cyprus cyrillic cython czech czechia
dallas darussalam darwin database datadog debian debug debugger dec december decimals declaration
decoratee decryption dell demo denmark density department dependencies dependency deployment
deprecation deque descriptors destinataire destinatario detection determinant devanagari developer
device dhcp dialect dialog did difference digest digital digraph dijkstra diophantine dirac
direccion dirección directive dirichlet discriminator dispatcher distutils django dns do doc
docker dockerfile docutils does domicilio dossier dover down dr dubai dublin dumper duration dutch
each earth east edge edinburgh edition editor editors efternamn egypt einstein elastic elixir
ellipse ellipsis elliptic else emacs emirates empfanger empfänger encryption endpoint energy
engine engineering english enterprise env envio envoy envío equals equation equations erlang error
estimation estonia ethiopia euclidean euler european every exception exchange executor exist
exists exp expat expediente expediteur expires express expéditeur face facebook facility
factorization factura facture factuur faktura fallnummer false familienname fargate fattura fatura
feb february fedora feedback fermat fibonacci fifth figma finland finnish firefox firehose fiscal
fiscale fish fixme flask fleet floatnumber floats floor fodelsedatum foo for formula formulas
fornamn fortran foundation foundations fourier frames framework france frankfurt frau frechet
french fresnel freundlichen friday friendly frobenius from ftp funny futures födelsedatum förnamn
fødselsnummer galois gateway gauge gauss gaussian geboortedatum geburtsdatum geburtsort geburtstag
gecko gegenbauer gemini generation geneva genocchi gentoo geophysics germany gesprach gespräch
ghana github gitlab glasgow globals golang golub google gpu gradio gradle grafana gram grammar
graphics graphql greece greedy greek groebner groeten groups grpc gruß gruße grußen grüße grüßen
guards guide haar hack had hadamard hadoop halley halsningar hamburg hamiltonian hamming handbook
handy handynummer hangul hankel hann hardware harmonic has hashable haskell hasło have havel he
health heaviside hebrew heidelberg helm helsinki here hermite herr hessenberg hessian hilbert hint
hints historia houston how html http https hub hungarian hungary hurwitz hypergeometric hälsningar
i ibm icon ideal identidad identifiant identification identifiers identifikationsnummer idle ids
idx if imaging imap implies improved in indexed india indirizzo indonesia industrial inexact inf
inference info institute instruction instrument insurance int intel intelligence interactive
interfaces internet interpreter interruption intrinsicable introduction ios ipv iran iraq is
islands israel issues istio it italian italy its jaccard jacobi jacobian jacobians jahr jahre
jahren january japan japanese java javascript jenkins jest jinja jira job joint json july jupyter
jython kafka kaggle kaiser katakana kelvin kennwort kenya keras kerberos ket kibana kinesis
kingdom klant klient klientka knuth kong kontonummer korea korean kotlin kronecker krylov
kubernetes kullback kund kunden kundennummer laboratory labs lagrange lagrangian laguerre lambda
lanczos landau lanka laplace laplacian laravel latin latvia layout ldap leaf learning lecture
legendre lemma len lenovo letter letters lib libphonenumber lie lieferadresse lieferung lifecycle
linux lisbon lisp listener literals lithuania live livraison llama loader loan london losenord
losenordet luhn luxembourg lösenord lösenordet mac mach machine macintosh macos madame madrid
magics mail makefile malaysia malta managed management manager manchester manual maple mappings
mar markdown markov markup math mathematica mathematics mathematik matlab matplotlib maven
mechanics media meijer mein meine melbourne mercurial mersenne meson meta metric metrics
metropolis mexico microsoft mij milan mining minipass minuten misc mises miss mistral mittente
mobius mocha mod modeling modifier mon monat monate monaten monday mongo mono monomial monsieur
monte montreal morada morocco mot movil mozilla mr mrs ms mul muls multi munich must mysql móvil
nachname nacida nacido nacimiento nacional nagle naissance nand nans naples nascimento nascita
nata national nato naturals nazwisko neovim netflix netherlands networks newton next nginx nigeria
no node nokia nomad nombre non none nones nor north northern norway not notation note notebook
notion november npm numba numer numero nummer numpy numéro nuxt nvidia nyquist número oauth
observation oct octave october of office ok okta ollama omega on only openai opera operation ops
optimizer or oracle ordinal ordinary ordine origin oslo out outcome outputs overlapped oxford
paciente pacjent packer pade pages pakistan pandas parallel param parametric params parargs paris
partita pasaporte pascal paspoort paspoortnummer passaporto passe passeport password passwort
paszport patient patientennummer patientin pauli payment paziente pdb pedido percolator perl
permanent permanently permissions personal personalausweis personnummer peru pexpect phase phi
philadelphia philippines physics pickler ping pipeline plan planck plane planning plate platforms
playwright plotly plugin plus pm pochhammer pointer poisson poland policies polish poly polygon
polynomials polytechnic pong pool popen portable portugal portuguese posix postgres postleitzahl
postmaster pow pozdrawiam prague prediction prenom preprocessor presentation presidio press prime
printable printer pro problems procedures proceedings processing production prof professor program
programming prometheus promotion proof protobuf protocols provider prénom pseudo publisher pulumi
punctuation puppet pygments pyre pytest python pythons qualcomm qualifier quantity quantum quasi
question rabbit rails ram ranking ratio rationals rayleigh react readline reals recent rechnung
rechnungsadresse rechnungsnummer recipes recipient recognition recognizer red redhat redis
regional registration registre registro regression reisepass reisepassnummer rel relational
relationals remainder remix reporter reports repository representations republic requirement
research resident residente resolution resolver resources rest restarted retain revenue review
rica riccati riemann rights rijksregisternummer ring ritz river role romania rome rounded route
router routines ruby ruckruf rufnummer runge runner russian rust rustc rückruf safari salt saludos
salutations saluti saml samsung san sans sat satisfiable saturday scala scanner scheduler schemas
schlussel schlüssel science sciences scientific scipy screen script scrollbar seaborn seattle sec
section security see sekunden selector selenium semaphore sendmail senha sentry sep september
serbia serial serializer serverless services settings shall shanghai shanks she should sieve
signals since singapore singleton singularity sir sized slack slovak slovakia slovenia smart smtp
soap social society software solaris solver some sons sony south southern
sozialversicherungsnummer spain span spanish spark speakeasy spectral spedizione speech sphinx
splunk spring springer sqlite squared squares ssh ssl stanford started stash stata statistic
stderr stdin stdout steueridentifikationsnummer steuernummer stieltjes stirling stockholm str
strasse straße streamlit street stripe struct structure student studio study stunde stunden sub
subnet subprotocol subs subscription subset suite summary sun sunday supplement suse svelte
swagger swarm sweden swedish swift switzerland sydney sylvester symfony symmetry symposium syria
systems tables tamil tanzania tarball tarjan tax taxpayer taylor tcl tcp team technical technology
telefon telefonnummer telefono telefoonnummer telemovel telemóvel telephone telnet teléfono
templates tensorflow terminator terraform tester thai thailand that the theme then theorem
theoretical there these they thinc thing this those thursday timer tip tix tkinter tls to todo
toeplitz tokenizer tokyo toml tool topics torch toronto tracer transformer transformers translator
transport traversable trees trello triangle tributaria true ttk tuesday tukey tunisia turkey
turkish twilio twitter typescript téléphone ubuntu udp uganda ukraine unavailable underflow
unequality unicode unified uniform unions unit united university unix unless unsatisfiable until
urodzenia use used using vagrant vancouver vandermonde var variants vary vault vectors verhoeff
versichertennummer vertex vertragsnummer vienna vietnam vim vision visitor visual vite vol volume
voornaam vorname voronoi vpn vue wachtwoord warning warsaw was we weak web webkit webpack
wednesday were werkzeug what wheel when where which while who why wiener wigner wikipedia wiley
win windows with woche wochen wohnort word workspace world would writer wronskian xcode xml xor
xxx yaml yarn yes ynm york you zahlung zahlungspflichtiger zamowienie zamówienie zealand zeta zipf
zone zones zsh zugangsdaten zurich
"""
#: Function words, products, languages, places, months, sciences and their eponyms.
TRADE: Final = frozenset(_TRADE.split())

_GIVEN = """
aaliyah aaron abby abdul abdullah abel abena abigail abraham ada adaeze adam adebayo adele aditi
aditya adrian adriana adrien adwoa agata agatha agathe agnes agnieszka agustin ahmad ahmed aidan
aiko aileen aimee ainhoa aino aisha aisling aitana aitor ajay akiko akira alain alan alana
alasdair alba albert alberto aldo alejandra alejandro aleksander aleksandr aleksandra alena
alessandra alessandro alessia alessio alex alexander alexandra alexandre alexandros alexei alexis
alfonso alfred alfredo ali alice alicia alina aline alisha alison alistair allan allison alma
alois alvaro alyssa amaia amal amalia amanda amandine amara amaury amaya amber amelia amelie amina
aminata amir amit amparo amrit amrita amy ana anabel anahit anais anand ananya anastasia anatole
anders andre andrea andreas andrei andres andrew andrey andrzej andy aneta angel angela angelica
angelika angelina angelo angelos angharad anika aniket anil anita anja anjali ann anna annabelle
anne annegret anneke annelies annette annie annika anouk anselm ansgar anthony antje antoine
antoinette anton antonella antoni antonia antonina antonino antonio antonios antti anwar anwen
anya aoife aparna apostolos april araceli arash arata archie ariadna ariana arianna arjun arlette
armand armando armin arnaud arne arno arnold arthur artur arturo arun arvid asa asger asha ashley
ashok ashwin asta astrid asuka athanasios athena atsushi audrey august auguste augustin aurelie
aurelien aurora axel ayaka ayesha aylin ayse ayumi aziz azra babak barbara barbora barry bart
bartlomiej bartosz bashir bastien beata beate beatrice beatriz begona behrouz belen ben benedetta
benedict benedikt bengt benita benito benjamin benoit berengere bernadette bernard bernardo bernd
bernhard bert bertha bertrand beth bethany bettina betty bhavna bianca bilal bill birgit birgitta
bjarne bjorn blanca blanche blandine blazej bob bogdan bojan boris borja bozena brad bradley
brandon branislav branko brenda brendan brent brett brian bridget brigida brigitte britta bronagh
bronwyn bruce brunhilde bruno bryan burak burkhard caitlin caitlyn calvin camila camilla camille
candela candice candido carina carl carla carlo carlos carlotta carmela carmelo carmen carol
carole carolin carolina caroline carolyn carrie carsten carys casey caspar cassandra catalina
catarina caterina cathal catharina catherine cathy catriona cayetana cecile cecilia cecilie cedric
celeste celestine celia celine cesar cesare chad chandra chantal charlene charles charlie
charlotte chelsea chen cheryl chiamaka chiara chidi chinedu chioma chloe chris christa christel
christelle christian christiane christina christine christoph christophe christopher christos
chrysoula cian ciara cillian cindy ciro claire clara clarisse claude claudette claudia claudio
claus clemence clemens clement clementine cliona clive colette colin colleen concepcion connor
conor conrad constance constantin constantinos consuelo cora coralie cordula corinna corinne
cormac cornelia cornelius cosima cosimo courtney craig cristian cristiana cristiano cristina
cristobal crystal curtis cynthia cyril dagmar dagny daichi daiki daisuke daisy dale damian damiano
damien damir dan dana daniel daniela daniele danielle danilo danny danuta daphne daria dariusz
darko darragh darren dave david davide dawn dean debbie deborah debra declan deepa deepak deirdre
delphine demetrios denis denisa denise dennis derek derya desiree desmond detlef devendra devin
dhruv diana diane diarmuid didier diego dieter dietmar dietrich dilys dimitra dimitri dimitrios
dimitris dina dino dirk divya dmitri dmitry dolores dominic dominik dominika dominique donald
donata donatella donato donna doreen doris dorota dorothea dorothee dorothy doug douglas dragan
duarte duc duncan dusan dustin dylan earl ebba ebere eberhard ece ed eddie edgar edita edith
edmund edoardo eduard eduarda eduardo edward edwige edwin eero efua egil egon eileen eilidh einar
eithne ekaterina elaine eleanor eleftheria elena eleni eleonora elfriede eliane elias elif elin
elina eline elisa elisabeth elisabetta elise elizabeth elke ella ellen ellie elodie eloise elsa
elsbeth else elske elvira elzbieta emanuel emanuela emeka emi emil emilia emiliano emilie emilio
emily emma emmanuel emmanuelle emrah emre enrica enrico enrique enzo erdem eric erica erich erik
erika erin erlend ermanno ernest ernesto ernst ersilia erwin esben esra esteban estefania estelle
esther ethan etienne etsuko eugen eugene eugenia eugenio eun eunice eva evan evangelia evangelos
evelina evelyn evelyne ewa ewald ewelina eyal ezgi fabian fabiana fabien fabienne fabio fabiola
fabrice fabrizio fadi faisal faith fang fanny farah farid farouk fatima fatma fatou federica
federico felicia felicitas felicity felipe felix femi femke feng ferdinand ferenc fergus fernanda
fernando fidan filip filipa filipe filippa filippo finlay finn finnian fiona fionnuala fiorella
flavia flavio fleur flora florence florent florentina florian floriane folasade fotini frances
francesca francesco francine francis francisca francisco franck franco francois francoise franjo
frank frantisek franz franziska frauke fred freddy frederic frederik frederique fredrik freya
frida frieda friederike friedrich fritz gabija gabor gabriel gabriela gabriele gabriella gaelle
gareth gary gaspard gaston gaurav gavin geert geeta gemma gene genevieve geoff geoffrey georg
george georges georgia georgina georgios gerald geraldine gerard gerardo gerd gerda gerhard german
germana gerrit gertrud gertrude ghassan gheorghe ghislain ghislaine giacomo giancarlo gianluca
gianna gianni giedre gilbert gilberto gilles gina ginevra gino giorgia giorgio giorgos giovanna
giovanni gisela giulia giulio giuseppe giuseppina gizem gladys glen glenn glenys gloria godfrey
goncalo gonzalo goran gordon gosia grace graciela graeme graham grainne grazia graziella greg
gregor gregory greta grzegorz guadalupe gudrun guido guilherme guillaume guillermo gulsah gundula
gunnar gunter gunther gustav gustave gustavo guy gwen gwenael gwendolyn gwyneth gyorgy haakon
habib hadiza hakan hakon halima halina hamid hamish hamza hana hani hank hanna hannah hanne
hanneke hannelore hannes hannu hans hao haoran harald harold harpreet harriet harry hartmut haruka
haruki haruto hasan hassan havva hazel heather hector hedwig heidi heike heiko heiner heinrich
heinz helen helena helene helga helmut heloise hendrik henri henriette henrik henrike henrique
henry henryk herbert heribert herman hermann hermine hermione hernan herve hiba hicham hideki
hideo hieu hikaru hilary hilda hilde hildegard hirokazu hiroko hiroshi holger holly hong horst
hortense howard hubert hubertus hugh hugo hugues hui humberto hung husein hussein hyejin iain ian
ibolya ibrahim ida idris ifeoma ignacio ignatius ignazio igor ikram ilaria ildiko ilias ilka ilona
ilse imani imelda imke immaculada imogen imran indira ines inga ingeborg ingeburg inger ingmar
ingo ingrid ingvild inigo inka inmaculada ioana ioanna ioannis ion irena irene irina iris irma
irmgard irmtraud isaac isabel isabella isabelle isak isha ishaan isidoro isla ismael ismail isolde
istvan itsuki itziar ivan ivana ivano ivar iveta ivo ivona iwan iwona iza izabela jacek jack
jackie jacob jacopo jacqueline jacques jadwiga jagoda jaime jake jakob jakub jamal james jamie
jamila jan jana jane janet janice janina janine janos janusz jaqueline jared jarek jarmila jaromir
jaroslav jaroslaw jasmin jasmine jason jasper javier jay jaya jean jeanette jeanne jeannette jeff
jeffrey jelena jelle jenna jennifer jenny jens jeppe jeremy jeroen jerome jerry jerzy jesper jesse
jessica jessie jesus jette jianhua jie jihoon jill jim jimmy jing jiri jitka jiwoo joachim joakim
joan joana joanna joanne joao joaquin joaquina jochen jody joe joel joelle joerg johan johann
johanna johannes john johnny jolanda jolanta jolien jon jonas jonathan joost jordan jordi jorg
jorge jorgen jorn josef josefa josefina josefine joseph josephine josh joshua josiane josip jouko
jovana joyce jozef juan juana juanita juanjo judith judy juergen jukka jules julia julian juliana
juliane julie julien juliette julio julius jun junko jurgen jurriaan justin justine justyna jutta
kaarina kacper kai kaisa kaja kalina kalle kalliope kamala kamil kamila kamran kaori kareem karel
karen karim karin karina karl karla karol karolina karoline karsten karthik kasia kasimir kaspar
kasper katalin katarina katarzyna kate katerina katharina kathe katherine kathleen kathrin kathryn
kathy katie katja katrin katya kavita kavya kay kazimierz kazuki kazuo kazuya keiko keiran keith
kelechi kelly kemal ken kenan kenji kenneth kent kenta kerem kerstin kevin keziah khadija khaled
khalid khalil kieran kim kimberley kimberly kinga kiran kirsten kirsty kjell klaas klara klaudia
klaus kofi kohei konrad konstantin konstantina konstantinos kornelia krishna kristen krister
kristian kristiina kristin kristina kristjan kristof kristoffer krystian krystyna krzysztof kunal
kurt kwabena kwame kyle kyriaki kyriakos lachlan laila lajos lakshmi lana laoise lara larissa
larry lars lasse laszlo latoya laura laure lauren laurence laurent laurie layla lea leah leandra
leandro lech lee lei leif leila leire lena lene leo leocadia leon leona leonard leonardo leonhard
leonie leonor leopold leopoldo leroy lesley leslie leszek leticia lev lewis li lia liam liane
lidia lidija lieke liesbeth liliana liliane lilja lilli lillian lilly lin lina linda lindsay
lindsey line linh linnea linus lionel lisa lise liselotte liv livia livio liz ljubica lloyd logan
loic lois lola lonneke lorcan lorena lorenz lorenzo loretta lori lothar lotta lotte louis louisa
louise luc luca lucas lucia lucian luciana luciano lucie lucien lucienne lucila lucille lucinda
lucjan lucrezia lucy ludmila ludovic ludovica ludwig luigi luis luisa luiz lukas lukasz luke luna
lutz luuk lydia lydie lynn maarit maarten maartje macarena maciej maciek maddalena madeleine madhu
madison mads maeve magali magda magdalena magnhild magnus mahesh mahmoud mai maia maike maite maja
makena makoto malcolm malgorzata malik malin malte mamadou mandeep mandy manfred manish manjit
manolis manon mansour manuel manuela marc marcel marcela marcella marcelle marcello marcelo marcin
marco marcos marcus marek maren margaret margarete margarida margarita margaux margherita margit
margot margrit marguerite maria mariam mariama marian mariana marianna marianne mariano marie
mariela marielle marika mariko marilyn marina marine mario marion marisa marisol marissa marita
marius mariusz marjorie mark marko markus marlena marlene marlies marta martha martijn martin
martina martine marvin mary maryam marzena masahiro masako masao massimo mateo mateusz mathias
mathieu mathilda mathilde matilda matilde matt matteo matthew matthias matthieu matthijs matti
maud maura maureen maurice mauricio maurizio mauro max maxime maximilian maximiliano maya mayra
mayumi meera megan megumi mehdi mehmet mei meike meiling melanie melina melinda melis melissa
meltem melvin menno merce mercedes merve mette mia micaela micha michael michaela michal michel
michela michele micheline michelle michiko mickael midori miguel mihai miia mika mikael mike
mikhail mikkel mikko mikolaj mila milan milena milica milos min mina minako ming mingyu minh
minseo miranda mireia mireille mirela miriam mirja mirjam mirko miroslav mirta misaki misha
mitchell mitsuko mitsuru mohamed mohammad mohammed mohan moira moises molly mona monica monika
monique montserrat morag moritz morten moses mounir muhammad muireann mukesh murat muriel murielle
mustafa myriam myrtle nabil nadezhda nadia nadim nadine nadja naima nanami nancy naoki naoko naomi
narges nasser natacha natalia natalie natascha natasha nathalie nathan nathaniel natsumi nayeli
neela neha neil nele nelly nelson nerea nerys nestor ngozi nguyen niall niccolo nicholas nick
nicola nicolai nicolas nicole nicoletta nicolette nicolo niels nigel nikhil niklas nikola nikolai
nikolaj nikolaos nikolas nikos nils nina nisha nkechi noah noel noelia noelle noemi noor noortje
nora norbert noreen noriko norma norman nour nuno nuria obinna oceane octavia octavio odette odile
ofelia oisin oksana ola olaf olamide olav olawale ole oleg olena olga oliver olivia olivier oliwia
olof olumide oluwaseun omar ondrej onur oriana oriol orla orlando ornella orsola orsolya osama
oscar oskar osvaldo oswald ottavio ottilie otto owen ozan ozge pablo padraig paige paloma pamela
panagiotis paola paolo paraskevi pascal pascale pascual pasquale patrice patricia patricio patrick
patrizia patryk paul paula paulette paulina pauline paulo pavel pavla pawel pedro peggy penelope
penny per perla pernille perrine peter petr petra petri petronella petros phil philip philipp
philippa philippe philippos phillip phoebe phuong phyllis pia pier piero pierre pierrette piet
pieter pietra pietro pilar pinar ping piotr pius pooja poppy poul prakash pranav pratik predrag
preeti priscilla priya priyanka przemyslaw qiang quang rachel radoslaw rafael rafaela rafal
raffaele raffaella ragnar ragnhild raheem rahul raimund rainer raisa rajesh rajiv rakesh ralf
ralph raluca ramesh rami ramiro ramon ramona randall randy rania raphael raquel rashid rasmus raul
ravi ravindra ray raymond rebecca regina reginald regine rei reiner reinhard reinhilde reinhold
remi remigiusz remy renata renate renato renaud rene renee reza rhiannon rhys ricarda ricardo
riccardo richard rick rikke rini rita ritu ritva rob robbert robert roberta roberto robin rocco
rocio rod roderick rodney rodolfo rodrigo rogelio roger rohan rohit roisin roland rolando rolf
romain roman romana romeo romuald romy ron ronald ronan ronja rory rosa rosalia rosalie rosalind
rosamund rosanna rosario rosella rosemarie rosemary rosina ross roswitha roxana roxane roy rozalia
ruairi ruben rudiger rudolf rui rukhsana runa rupert russell ruth ryan ryo ryota ryszard saana
sabine sabri sabrina sachiko sadiq said saiful sakari sakura salim sally salma salome salvador
salvatore sam samantha sami samir samira samuel sandeep sandra sandrine sandro sandy sanjana
sanjay sanjeev sanna sanne santeri santiago santino saoirse sara sarah sascha saskia satoshi satu
savannah saverio sayaka scott seamus sean sebastian sebastiano sebastien selcuk selina selma semra
senan seojun serena serge sergei sergey sergio serkan seth severine seweryn shabnam shalini shane
shanice shannon shanthi sharon shaun shawn sheila shinichi shinji shiori shirin shirley shota
shreya sibel sibylle siegfried sieglinde siegrid sigmar sigrid sigrun sigurd silje silke silvana
silvia silvie silvio simon simona simone sina sindre sinead sinem siobhan siri siv sixtine slavica
slawomir sloane snezana sofia sofie sokrates solange solene solveig sonal sonia sonja soojin
sophia sophie sorcha soren spyridon stacey stacy stanislav stanislaw stanislawa stavros stavroula
stefan stefania stefanie stefano steffen stella stephan stephane stephanie stephen steve steven
stewart stig stina stuart sukanya sunil sunita suresh susan susana susann susanna susanne suse
suzanne suzette svea svein sven svenja svetlana swapnil swati sybille sylvain sylvia sylvie sylwia
szabolcs szymon taavi tadeusz tadhg taiwo takashi takeshi takumi tamara tamas tammy tamsin tanguy
tania tanja tanvi tanya tara tarik tariq tariro taro tatiana tatjana tatsuya taylor ted tegan
teodor teodora teodoro terence teresa terje terry tess tessa tetsuya thaddeus thanasis thandiwe
thea theda theo theodor theodora theodore theodoros theresa therese thibault thibaut thierry thijs
thilo thomas thomasina thor thora thorsten thorvald thuy tiago tibor tiffany tilda tilman tim
timea timo timothee timothy timur tina tino tjorven tobias todd tom tomas tomasz tommaso tommy
tomoko tomoya tone toni tony torben torbjorn tore torsten torunn tove tracey tracy travis trevor
tristan trond troy tuan tullio tuomas tuulia tyler udo ugo ulf ulises ulla ulrich ulrika ulrike
umberto umut unai urs ursula urszula usha ute uwe vaclav vaibhav valentin valentina valentine
valeria valerie valerio valtteri vanesa vanessa vangelis vasile vasiliki vasilis veerle vera
verena verity veronica veronika veronique vesna vibeke vicente vicki vicky victoire victor
victoria vidar vijay vijaya vikram viktor viktoria viljami vilma vincent vincenza vincenzo vinod
viola violaine violet violetta virginia virginie vito vittoria vittorio vivek vivian viviana
vivien vivienne vladimir vlado vlasta vojtech volkan volker waldemar walid wallace walter waltraud
wanda warren wayne wei weiming wendy wenzel werner wesley wiebke wieslaw wietske wiktoria wilfried
wilhelm wilhelmina will willem william willy wim winfred winfried winifred wioletta wladyslaw
wojciech wolfgang wolfram wouter xabier xavier xiao xiaoming ximena xin yagmur yan yann yannick
yannis yara yasin yasmin yasmina yasmine yasuhiro yelena yevgenia yigit yildiz ying yngve yoko
yolanda yolande yordan yorgos yoshiko youssef yu yuki yuko yumi yuri yusuf yusuke yuto yuval
yuxuan yves yvette yvonne zacharias zachary zaheer zahra zainab zbigniew zdenek zdenka zehra
zeljko zeynab zeynep zihan zita zlatko zoe zofia zoltan zsofia zsolt zsuzsanna zuzana zuzanna
zygmunt
"""
#: First names, without accents.
GIVEN: Final = frozenset(_GIVEN.split())
