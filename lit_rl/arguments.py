"""Names of :mod:`lit_rl.errors` and :mod:`lit_rl.signature_check`, for files that are yet to import them from there."""

from lit_rl.errors import ArgumentError as ArgumentError
from lit_rl.errors import LitRLError as LitRLError
from lit_rl.errors import UnknownArgumentError as UnknownArgumentError
from lit_rl.errors import UsageError as UsageError
from lit_rl.errors import require_above as require_above
from lit_rl.errors import require_at_least as require_at_least
from lit_rl.errors import require_clip as require_clip
from lit_rl.errors import require_count as require_count
from lit_rl.errors import require_items as require_items
from lit_rl.errors import require_not_negative as require_not_negative
from lit_rl.errors import require_number as require_number
from lit_rl.errors import require_one_of as require_one_of
from lit_rl.errors import require_seconds as require_seconds
from lit_rl.errors import require_share as require_share
from lit_rl.errors import require_switch as require_switch
from lit_rl.errors import seed_or_global as seed_or_global
from lit_rl.errors import shown as shown
from lit_rl.errors import with_variables as with_variables
from lit_rl.signature_check import TypedArguments as TypedArguments
from lit_rl.signature_check import arguments_of as arguments_of
from lit_rl.signature_check import fits as fits
from lit_rl.signature_check import typed_arguments as typed_arguments
from lit_rl.signature_check import typed_group as typed_group
