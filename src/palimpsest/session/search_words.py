"""English word knowledge for search: what to leave out, and what else a word may be written as.

Three small tables, used on the query only. They are general: words that carry no subject, forms
that stemming cannot join (irregular verbs and plurals, everyday synonyms), and the members of
everyday categories, so that "which instruments" finds "violin". Other languages are unaffected.
"""

from __future__ import annotations

from functools import cache, lru_cache

_STOP_WORDS = """
a about above after again against all also am an and any are as at be because been before being
below between both but by can could did do does doing done down during each few for from further
had has have having he her here hers herself him himself his how i if in into is it its itself
just me might more most much must my myself no nor not now of off on once only or other our ours
ourselves out over own same shall she should so some such than that the their theirs them
themselves then there these they this those through to too under until up upon us very was we were
what when where which while who whom whose why will with would you your yours yourself yourselves
s t d ll m re ve don didn doesn isn wasn won aren weren hasn haven hadn couldn shouldn wouldn
"""

_IRREGULAR = """arise arose arisen;bear bore borne;beat beaten;become became;begin began begun;
bend bent;bind bound;bite bit bitten;blow blew blown;break broke broken;bring brought;build built;
burn burnt;buy bought;catch caught;choose chose chosen;come came;deal dealt;dig dug;
draw drew drawn;dream dreamt;drink drank drunk;drive drove driven;eat ate eaten;fall fell fallen;
feed fed;feel felt;fight fought;find found;fly flew flown;forget forgot forgotten;
forgive forgave forgiven;freeze froze frozen;get got gotten;give gave given;go went gone;
grow grew grown;hang hung;hear heard;hide hid hidden;hold held;keep kept;know knew known;lay laid;
lead led;learn learnt;leave left;lend lent;lie lain;light lit;lose lost;make made;mean meant;
meet met;pay paid;ride rode ridden;ring rang rung;rise rose risen;run ran;say said;see saw seen;
seek sought;sell sold;send sent;shake shook shaken;shine shone;shoot shot;show shown;sing sang sung;
sink sank sunk;sit sat;sleep slept;speak spoke spoken;spend spent;stand stood;steal stole stolen;
stick stuck;strike struck;swim swam swum;take took taken;teach taught;tear tore torn;tell told;
think thought;throw threw thrown;understand understood;wake woke woken;wear wore worn;win won;
write wrote written;child children;man men;woman women;person people;foot feet;tooth teeth;
mouse mice;life lives;wife wives;knife knives;shelf shelves;analysis analyses;index indices"""

_DERIVED = """advice advise;analysis analyse analyze;art artist artistic;belief believe;birth born;
beauty beautiful;breath breathe;choice choose chose;cloth clothing clothes;death die died dead;
decision decide;depth deep;economy economic;energy energetic;fear afraid;flight fly flew;food feed;
friend friendship;gift give gave;growth grow grew;health healthy;height high;history historic;
knowledge know knew;length long;loss lose lost;marriage marry wedding;medicine medical;
memory remember;music musician musical;nature natural;pain painful;photo photography photographer;
politics political politician;practice practise;pride proud;proof prove;relief relieve;
religion religious;safety safe;sale sell sold;science scientist scientific;seat sit sat;
song sing sang singer;speech speak spoke;strength strong;success succeed successful;
thought think;tradition traditional;truth true;use user usage;voice vocal;weight weigh;width wide;
wisdom wise;wood wooden;wool woolen;belief believe;error erroneous;failure fail;removal remove;
arrival arrive;approval approve;proposal propose;delivery deliver;discovery discover;
recovery recover;injury injure hurt;theft steal stole;performance perform;maintenance maintain;
appearance appear;existence exist;difference differ different;presence present;
explanation explain;pronunciation pronounce;destruction destroy;production produce;
reduction reduce;description describe;subscription subscribe;solution solve;
registration register;installation install;migration migrate;deployment deploy;
permission permit;decision decide;collision collide;competition compete competitor;
application apply;communication communicate;participation participate participant"""

_SYNONYMS = """girlfriend gf;boyfriend bf;dad father daddy;mom mother mum mommy;
grandma grandmother granny;grandpa grandfather;kid child;dog puppy pup doggy;cat kitten kitty;
bike bicycle cycling;photo picture pic photograph;movie film;tv television;car automobile;
buy purchase;begin start;journey trip;store shop;job work career profession;house home;
doctor physician;phone cellphone;university college;big large huge;small little tiny;sick ill;
present gift;holiday vacation;song tune;contest competition tournament;fix repair;crash accident;
glad happy;afraid scared;workout exercise gym;baby infant newborn;teenager teen;
company firm business;boss manager;coworker colleague;apartment flat;exam test;lawyer attorney;
airplane plane flight;buddy friend pal;delicious tasty;therapist counselor therapy counseling;
tired exhausted;angry mad furious;sad upset;excited thrilled;quit resign;donate donation charity;
fundraiser fundraising charity;injury injured;moved relocated;recommend suggest recommendation;
advice tips;encourage motivate;volunteer volunteering;win victory won;award prize trophy medal;
picnic barbecue bbq;tasks chores;hobby pastime;beach coast shore;hike trail;forest woods;
rain rainy;snow snowy;cook recipe;author writer;book novel;game gaming;band concert gig;
theater theatre play;neighborhood neighbourhood;color colour;favorite favourite;
beverage drink;supper dinner;soccer football;sneakers shoes;pants trousers;fall autumn;
bug error;deploy deployment release rollout;configuration config setting;database db;
repository repo;authentication auth login;app application;documentation docs;delete remove;
price cost;meeting call;email mail;password credential;server host;laptop computer pc;
crash outage incident;ticket issue;bill invoice;salary pay wage;flat apartment;fridge refrigerator;
taxi cab;luggage suitcase baggage;couch sofa;garbage trash rubbish;cookie biscuit"""

_CATEGORIES = """
instrument: violin guitar piano drum clarinet flute cello trumpet saxophone ukulele bass harp banjo
pet: dog puppy pup cat kitten hamster rabbit parrot bird fish turtle lizard snake horse
animal: dog cat horse bird fish rabbit turtle lizard snake bear deer wolf cow pig sheep chicken
sport: soccer football basketball baseball tennis volleyball hockey golf swimming surfing skiing
 snowboarding running cycling boxing climbing yoga skating
game: chess poker monopoly xbox playstation nintendo puzzle card
hobby: painting pottery reading cooking gardening photography hiking dancing knitting drawing
 writing singing fishing camping
activity: hiking camping swimming painting pottery running cycling dancing yoga climbing fishing
 volunteering kayaking surfing gardening cooking reading
exercise: yoga running gym swimming cycling pilates workout jogging weights
food: pizza pasta sushi burger salad soup sandwich steak chicken rice bread cheese taco curry
 noodle cake pie cookie muffin pastry
dessert: cake pie cookie cupcake brownie pudding chocolate
fruit: apple banana orange strawberry grape lemon peach pear mango blueberry cherry
vegetable: carrot tomato potato onion pepper lettuce spinach broccoli cucumber bean
drink: coffee tea beer wine juice water soda cocktail whiskey milk smoothie
color: red blue green yellow purple orange pink black white brown gray
relative: mother father mom dad sister brother son daughter aunt uncle cousin grandma grandpa
family: mother father mom dad sister brother son daughter wife husband kid parent
child: son daughter kid baby toddler
parent: mother father mom dad
sibling: brother sister
season: summer winter spring autumn fall
vehicle: car truck motorcycle bike bus van scooter boat
clothes: shirt dress jacket shoe jeans coat hat sweater skirt
jewelry: necklace ring bracelet earring pendant
art: painting drawing sculpture pottery photography
genre: rock jazz classical pop country folk electronic
country: usa america canada mexico england france germany spain italy sweden norway japan china
 india brazil australia thailand ireland greece
city: london paris tokyo york boston chicago seattle miami rome berlin barcelona francisco angeles
weather: rain snow sun wind storm fog
flower: rose sunflower tulip lily daisy orchid lavender
illness: flu cold fever cancer covid infection allergy asthma
furniture: chair table sofa couch desk bed shelf lamp
book: novel author chapter read
music: song band album concert guitar piano singer
holiday: christmas thanksgiving easter halloween
language: english spanish french german chinese japanese italian python java rust javascript
feeling: happy sad proud excited nervous scared angry grateful
job: engineer teacher nurse doctor manager analyst designer developer
subject: math science history biology chemistry physics
place: park beach museum cafe restaurant mountain lake city library zoo
outdoors: hiking camping park beach mountain forest lake trail
device: phone laptop tablet computer camera headphones console
tool: hammer drill saw screwdriver wrench
meal: breakfast lunch dinner supper brunch
dish: pasta soup salad curry stew pizza steak lasagna
cuisine: italian mexican chinese japanese indian thai french korean
room: kitchen bedroom bathroom basement garage office
symptom: pain cough fever headache nausea
injury: ankle knee wrist shoulder broken sprained sprain
degree: bachelor master phd diploma
community: neighbors volunteers shelter church charity
console: playstation xbox nintendo switch
film: comedy drama thriller horror documentary
movie: comedy drama thriller horror documentary
transport: bus train car plane bike subway taxi
weekday: monday tuesday wednesday thursday friday
weekend: saturday sunday
nationality: american british canadian german french spanish italian chinese japanese indian
state: california texas florida oregon washington colorado michigan ohio georgia nevada
hometown: born grew
event: concert parade festival conference party wedding fundraiser race workshop
"""


STOP_WORDS = frozenset(_STOP_WORDS.split())


def _groups(table: str) -> dict[str, tuple[str, ...]]:
    related: dict[str, tuple[str, ...]] = {}
    for group in table.split(";"):
        words = group.split()
        for word in words:
            others = tuple(other for other in words if other != word)
            related[word] = related.get(word, ()) + others
    return related


@cache
def _tables() -> tuple[dict[str, tuple[str, ...]], ...]:
    categories: dict[str, tuple[str, ...]] = {}
    for line in _CATEGORIES.replace("\n ", " ").strip().splitlines():
        name, members = line.split(":")
        categories[name] = tuple(members.split())
    return _groups(_IRREGULAR), _groups(f"{_DERIVED};{_SYNONYMS}"), categories


def base_forms(word: str) -> list[str]:
    """The word and what it may be inflected from (plural, -ing, -ed), for looking it up."""
    forms = [word]
    for ending, replacements in (
        ("ies", ("y",)), ("es", ("", "e")), ("s", ("",)), ("ing", ("", "e")), ("ed", ("", "e")),
    ):  # fmt: skip
        if word.endswith(ending) and len(word) - len(ending) >= 2:
            stem = word[: -len(ending)]
            forms.extend(stem + replacement for replacement in replacements)
            if ending in ("ing", "ed") and len(stem) > 2 and stem[-1] == stem[-2]:
                forms.append(stem[:-1])
    return forms


@lru_cache(maxsize=1024)
def other_forms(word: str) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """For a lower-case word: forms of the same word, synonyms, and members of its category."""
    forms = base_forms(word)
    irregular, synonyms, categories = _tables()
    found: list[tuple[str, ...]] = []
    for table in (irregular, synonyms, categories):
        related = {other: None for form in forms for other in table.get(form, ())}
        found.append(tuple(other for other in related if other != word))
    return found[0], found[1], found[2]
