"""aioapns against the simulator: started by apns-peers.sh.

apns_peer.py strict|tolerant PORT CA KEY TOKEN GONE   sends good and bad pushes
apns_peer.py report                                   shows a report that comes on standard input
"""

import asyncio
import json
import sys

TOPIC = "com.example.calls.voip"


def show_report():
    report = json.load(sys.stdin)
    for name in ("connections", "streams", "streams_in_flight_max", "accepted", "provider_tokens"):
        print(f"  {name}: {report[name]}")
    print(f"  responses: {report['responses']}")
    print(f"  violations: {report['violations']}")


async def main(mode, port, ca, key, token, gone):
    import ssl

    from aioapns import APNs, NotificationRequest, PushType

    with open(key) as file:
        key = file.read()
    context = ssl.create_default_context(cafile=ca)
    if mode == "strict":
        # aioapns says nothing of ALPN by itself: the real server puts up with that.
        context.set_alpn_protocols(["h2"])
    client = APNs(
        key=key, key_id="KEYID12345", team_id="TEAMID1234", topic=TOPIC, max_connections=2,
        max_connection_attempts=1, ssl_context=context)
    client.pool.protocol_class.APNS_SERVER = "localhost"
    client.pool.protocol_class.APNS_PORT = int(port)
    failures = 0

    def request(**changes):
        values = dict(
            device_token=token, message={"aps": {}}, time_to_live=30, priority=10,
            push_type=PushType.VOIP)
        values.update(changes)
        return NotificationRequest(**values)

    async def expect(name, wanted, **changes):
        nonlocal failures
        push = request(**changes)
        result = await asyncio.wait_for(client.send_notification(push), 10)
        got = (result.status, result.description)
        if got != wanted or result.notification_id != push.notification_id:
            failures += 1
            print(f"  WRONG {name}: {got}, not {wanted}")

    await expect("good push", ("200", None))
    await expect("unknown token", ("400", "BadDeviceToken"), device_token="ef" * 32)
    await expect("no token at all", ("400", "BadDeviceToken"), device_token="xyz")
    await expect("token that is gone", ("410", "Unregistered"), device_token=gone)
    await expect("alert topic", ("400", "BadTopic"), apns_topic="com.example.calls")
    await expect("other app", ("400", "TopicDisallowed"), apns_topic="com.other.voip")
    await expect(
        "token of another kind", ("400", "DeviceTokenNotForTopic"), push_type=PushType.ALERT,
        apns_topic="com.example.calls")
    await expect("priority", ("400", "BadPriority"), priority=7)
    await expect("collapse id", ("400", "BadCollapseId"), collapse_key="x" * 65)
    await expect("no push type", ("400", "InvalidPushType"), push_type=None)
    await expect("largest payload", ("200", None), message={"a": "x" * 5111})
    await expect("too large a payload", ("413", "PayloadTooLarge"), message={"a": "x" * 5112})
    await expect("good push", ("200", None))
    many = await asyncio.gather(
        *(asyncio.wait_for(client.send_notification(request()), 30) for _ in range(2000)))
    accepted = sum(result.is_successful for result in many)
    print(f"  {accepted} of {len(many)} pushes at once accepted")
    client.pool.close()
    if failures or accepted != len(many):
        sys.exit(1)
    print("  every answer as it should be")


if sys.argv[1] == "report":
    show_report()
else:
    asyncio.run(main(*sys.argv[1:]))
