# Makes the calls in standard input, a line each, with the program in descriptor 4; descriptor 3 takes a line per call.
use v5.36;
no warnings;
use B ();
use JSON::PP ();
{
    my ($header, @calls) = split /\n/, do { local $/; <STDIN> };
    my ($entry, $in_place, $lists) = split / /, $header;
    my $json = JSON::PP->new->ascii->allow_nonref->boolean_values(!!0, !!1);
    my ($encode, $decode) = (\&JSON::PP::encode, \&JSON::PP::decode);
    open my $answers, ">&=3";
    my ($flags, $told, $text) = (\&B::svref_2object, 0);
    my $answer = sub ($line) { syswrite $answers, "$line\n" };
    $text = sub ($value, $depth) {
        return "null" unless defined $value;
        my $kind = ref $value;
        return $value ? "true" : "false" if $kind eq "JSON::PP::Boolean" || builtin::is_bool($value);
        return "$value" if $kind eq "Math::BigInt" && "$value" =~ /^-?\d+\z/;
        if (!$kind) {
            my $have = $flags->(\$value)->FLAGS;
            return $encode->($json, $value) if $have & B::SVf_POK || !($have & (B::SVf_IOK | B::SVf_NOK));
            return $value != $value ? "NaN" : "${\($value < 0 ? '-' : '')}Infinity" if $value != $value || abs($value) == 9**9**9;
            return $have & B::SVf_IOK ? "$value" : sprintf "%.17g", $value;
        }
        die "NotCarried\n" if !$depth || $kind ne "ARRAY" && $kind ne "HASH";
        return "[" . join(",", map { $text->($_, $depth - 1) } @$value) . "]" if $kind eq "ARRAY";
        return "{" . join(",", map { $encode->($json, "$_") . ":" . $text->($value->{$_}, $depth - 1) } keys %$value) . "}";
    };
    open my $file, "<", "/proc/self/fd/4" or die "the program cannot be read: $!\n";
    my @packages = join("", <$file>) =~ /^\s*package\s+([\w:]+)/mg;
    close $file;
    @ARGV = ();
    { package main; no strict; no feature ":all"; do "/proc/self/fd/4"; }
    die $@ if $@;
    $answer->("{}");
    for my $call (@calls) {
        my $done = eval {
            my $values = $decode->($json, $call);
            my ($found) = grep { $_ } map { $_->can($entry) } "main", @packages;
            die "the program defines no $entry\n" unless $found;
            my @results = $lists ? $found->(@$values) : scalar $found->(@$values);
            my $line = eval { join ",", map { $text->($_, 100) } $in_place ? $values->[0] : @results };
            $answer->(defined $line ? "[$line]" : '{"types":["NotCarried"],"message":"no JSON"}');
            1;
        };
        next if $done;
        $answer->('{"types":[]}');
        print STDERR $@ unless $told++;
    }
    exit 0;
}
