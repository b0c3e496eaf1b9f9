//! What must happen together. Every script's first argument is a time to live, in seconds but for heartbeats.

use std::sync::LazyLock;

use redis::Script;

/// Once for each request. KEYS: request, result, and so on. ARGV: ttl, digest, and so on. Answers as `Claim` does. A state
/// without a digest is one whose claim was lost with the server's memory; whoever comes with the body first gets it. It does
/// not lengthen the life of what is done: a state that outlives its result would promise one that never comes.
pub static CLAIM: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        r"
        local answers = {}
        for n = 1, #KEYS / 2 do
            local request, result, mine = KEYS[2 * n - 1], KEYS[2 * n], ARGV[n + 1]
            local digest, done, used
            if redis.call('EXISTS', request, result) > 0 then
                digest = redis.call('HGET', request, 'digest')
                done = redis.call('EXISTS', result) == 1
                used = done or redis.call('HEXISTS', request, 'state') == 1
            end
            if digest and digest ~= mine or done and not digest then
                answers[n] = 'conflict'
            else
                if not done then
                    redis.call('HSET', request, 'digest', mine)
                    redis.call('EXPIRE', request, ARGV[1])
                end
                answers[n] = used and 'accepted' or digest and 'unconfirmed' or 'new'
            end
        end
        return answers
        ",
    )
});

/// Once for each request. KEYS: request, result, events, and so on. ARGV: ttl, event, digest, and so on. A state never goes
/// back to `queued`. Whoever wrote the digest has limited its life. The event is written if somebody waits for it; otherwise
/// the state says it until something else happens: a stream takes four kilobytes, and much is queued at times.
pub static CONFIRM: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        r"
        for n = 1, #KEYS / 3 do
            local request, result, events = KEYS[3 * n - 2], KEYS[3 * n - 1], KEYS[3 * n]
            if redis.call('EXISTS', request, result, events) == 0 then
                redis.call('HSET', request, 'state', 'queued', 'digest', ARGV[n + 2])
                redis.call('EXPIRE', request, ARGV[1])
            elseif redis.call('EXISTS', result) == 0 and redis.call('HSETNX', request, 'state', 'queued') == 1 then
                if redis.call('HSETNX', request, 'digest', ARGV[n + 2]) == 1 then
                    redis.call('EXPIRE', request, ARGV[1])
                end
                if redis.call('EXISTS', events) == 1 and redis.call('XLEN', events) == 0 then
                    redis.call('XADD', events, '0-1', 'event', ARGV[2])
                    redis.call('EXPIRE', events, ARGV[1])
                end
            end
        end
        ",
    )
});

/// KEYS: request, events. ARGV: time to live in seconds of what is left for [`CONFIRM`]. For those who follow from the
/// start: answers with 1 if it is queued and nothing else has happened. If nothing at all is known, an empty stream says
/// that somebody waits.
pub static FOLLOW: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        r"
        if redis.call('XLEN', KEYS[2]) > 0 then return 0 end
        if redis.call('HGET', KEYS[1], 'state') == 'queued' then return 1 end
        if redis.call('EXISTS', KEYS[2]) == 0 then
            redis.call('XGROUP', 'CREATE', KEYS[2], 'followers', '0', 'MKSTREAM')
        end
        redis.call('EXPIRE', KEYS[2], ARGV[1])
        return 0
        ",
    )
});

/// KEYS: request, result.
pub static RELEASE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        r"
        if redis.call('HEXISTS', KEYS[1], 'state') == 1 or redis.call('EXISTS', KEYS[2]) == 1 then return end
        redis.call('DEL', KEYS[1])
        ",
    )
});

/// KEYS: request, result, events. ARGV: ttl, digest, worker, token, most attempts, the event `queued`, 1 if alone, for how many ms a
/// worker's word holds. Answers as `Take` does, with a detail. A token that stands there already is our own: the first answer was
/// lost. An owner that lives, but has not said for a while that it runs this, does not: its giving back was lost.
pub static TAKE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        r"
        local digest, owner, token, starts, state, heard =
            unpack(redis.call('HMGET', KEYS[1], 'digest', 'owner', 'token', 'starts', 'state', 'heard'))
        local time = redis.call('TIME')
        local now = time[1] * 1000 + math.floor(time[2] / 1000)
        starts = tonumber(starts or 0)
        if redis.call('EXISTS', KEYS[2]) == 1 then return {digest == ARGV[2] and 'done' or 'conflict', ''} end
        if digest and digest ~= ARGV[2] then return {'conflict', ''} end
        if token == ARGV[4] then return {'begun', tostring(starts)} end
        if owner and owner ~= ARGV[3] and now - tonumber(heard or 0) < tonumber(ARGV[8])
            and redis.call('EXISTS', 'tribunal:worker:' .. owner) == 1 then
            return {'elsewhere', owner}
        end
        if starts >= tonumber(ARGV[5]) then return {'exhausted', ''} end
        if starts > 0 and starts + 1 == tonumber(ARGV[5]) and ARGV[7] == '0' then return {'alone', ''} end
        starts = starts + 1
        redis.call('HSET', KEYS[1], 'digest', ARGV[2], 'state', 'running', 'owner', ARGV[3], 'token', ARGV[4],
            'starts', starts, 'heard', string.format('%d', now))
        redis.call('EXPIRE', KEYS[1], ARGV[1])
        if state == 'queued' and redis.call('EXISTS', KEYS[3]) == 0 then
            redis.call('XADD', KEYS[3], '0-1', 'event', ARGV[6])
        end
        redis.call('XADD', KEYS[3], '*', 'event',
            cjson.encode({event = 'running', worker = ARGV[3], attempt = starts}))
        redis.call('EXPIRE', KEYS[3], ARGV[1])
        return {'begun', tostring(starts)}
        ",
    )
});

/// KEYS: request, result, events. ARGV: ttl, token, event.
pub static RECORD: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        r"
        if redis.call('EXISTS', KEYS[2]) == 1 or redis.call('HGET', KEYS[1], 'token') ~= ARGV[2] then return end
        redis.call('XADD', KEYS[3], '*', 'event', ARGV[3])
        redis.call('EXPIRE', KEYS[3], ARGV[1])
        ",
    )
});

/// KEYS: request, result, events. ARGV: ttl, token, event, 1 if the attempt does not count.
pub static GIVE_BACK: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        r"
        if redis.call('EXISTS', KEYS[2]) == 1 or redis.call('HGET', KEYS[1], 'token') ~= ARGV[2] then return end
        redis.call('HDEL', KEYS[1], 'owner', 'token')
        redis.call('HSET', KEYS[1], 'state', 'queued')
        if ARGV[4] == '1' then redis.call('HINCRBY', KEYS[1], 'starts', -1) end
        redis.call('XADD', KEYS[3], '*', 'event', ARGV[3])
        redis.call('EXPIRE', KEYS[3], ARGV[1])
        ",
    )
});

/// KEYS: request, result, events. ARGV: digest. Answers with 0 if the id belongs to another body.
pub static FORGET: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        r"
        local digest = redis.call('HGET', KEYS[1], 'digest')
        if digest and digest ~= ARGV[1] then return 0 end
        redis.call('DEL', KEYS[1], KEYS[2], KEYS[3])
        return 1
        ",
    )
});

/// KEYS: request, result, events. ARGV: ttl, result, final event, the event `queued`, digest or nothing. The first result
/// wins.
pub static PUT: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        r"
        if not redis.call('SET', KEYS[2], ARGV[2], 'NX', 'EX', ARGV[1]) then return 0 end
        if redis.call('EXISTS', KEYS[3]) == 0 and redis.call('HGET', KEYS[1], 'state') == 'queued' then
            redis.call('XADD', KEYS[3], '0-1', 'event', ARGV[4])
        end
        redis.call('XADD', KEYS[3], '*', 'event', ARGV[3])
        redis.call('EXPIRE', KEYS[3], ARGV[1])
        if ARGV[5] ~= '' then redis.call('HSETNX', KEYS[1], 'digest', ARGV[5]) end
        redis.call('EXPIRE', KEYS[1], ARGV[1])
        return 1
        ",
    )
});

/// KEYS: sign of life, workers; result, request and events of each that it runs. ARGV: time to live in ms, name, what it says, ttl
/// of what it runs, which must be known for as long as it runs. Answers with 1 for each result that is there. By the server's
/// clock, because workers' clocks differ.
pub static BEAT: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        r"
        local time = redis.call('TIME')
        local now = string.format('%d', time[1] * 1000 + math.floor(time[2] / 1000))
        redis.call('SET', KEYS[1], now, 'PX', ARGV[1])
        redis.call('HSET', KEYS[2], ARGV[2], now .. ' ' .. ARGV[3])
        local done = {}
        for n = 3, #KEYS, 3 do
            local is_done = redis.call('EXISTS', KEYS[n])
            if is_done == 0 and redis.call('HGET', KEYS[n + 1], 'owner') == ARGV[2] then
                redis.call('HSET', KEYS[n + 1], 'heard', now)
                redis.call('EXPIRE', KEYS[n + 1], ARGV[4])
                redis.call('EXPIRE', KEYS[n + 2], ARGV[4])
            end
            done[#done + 1] = is_done
        end
        return done
        ",
    )
});

/// KEYS: workers. ARGV: for how many ms a silent one is remembered. Answers with the age in ms and what it said, for each.
pub static WORKERS: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        r"
        local time = redis.call('TIME')
        local now = time[1] * 1000 + math.floor(time[2] / 1000)
        local heard, all = {}, redis.call('HGETALL', KEYS[1])
        for n = 1, #all, 2 do
            local beat, said = string.match(all[n + 1], '^(%d+) (.*)$')
            local age = beat and math.max(0, now - tonumber(beat)) or math.huge
            if age > tonumber(ARGV[1]) then
                redis.call('HDEL', KEYS[1], all[n])
            else
                heard[#heard + 1] = {age, said}
            end
        end
        return heard
        ",
    )
});
