"""English words that say little by themselves, for judging what a sentence holds."""

_TEXT = """
    a about after again all also always am an and another any anyone anything are around as ask at
    away awesome back be because been before being best better big both but by bye came can
    cannot can't come cool could couldn't cute day days did didn't different do does doesn't doing
    done don't down each else enjoy enough especially even ever every everyone everything exactly
    excited far feel feeling few find fine first for from fun get getting give go going gonna good
    got great guess had haha happy hard has have haven't having he hear hello help her here hers
    hey hi him his hope how how's i i'd i'll i'm i've if in inside interesting into is isn't it
    it's its job just keep kind know last least less let let's life like liked likes little live
    lol long look looking lot lots love loved made make makes making many mate maybe me mean might
    mine month more most much must my myself need never new nice night no nope not nothing now of
    off oh ok okay old on once one only or other others our ours out over own part people perfect
    person play please pretty probably put quite read really right said same say see seems seen
    she should show so some someone something sometimes soon sorry sound sounds still stuff such
    super sure take talk tell than thank thanks that that's the their them then there there's
    these they they're thing things think this those though thought through time times to today
    together told tomorrow too took totally tried true try trying two up us use used usually very
    wait want wanted was wasn't watch way we we'd we'll we're we've week weeks weekend well went
    were what what's when where which while who who's whole why will wish with won't work working
    world would wouldn't wow yeah year years yep yes yesterday yet you you'd you'll you're you've
    your yours yourself yup
"""

COMMON_WORDS = frozenset(_TEXT.split())
"""Function words, and the small change of conversation."""
