import CallCore
import CallWire

/// Rules of users, and what an app's server asks and is answered.
enum GoldenApp {
  private static let time = Timestamp(microseconds: 1_790_000_030_000_000)

  static let rules = UserRules(
    always: UserRules.Forward(users: ["cy"]), onBusy: UserRules.Forward(users: ["dee", "eve"]),
    onNoAnswer: UserRules.Forward(users: ["desk"]), noAnswerSeconds: 25,
    onUnreachable: UserRules.Forward(users: ["mail"]),
    doNotDisturb: UserRules.DoNotDisturb(until: time, except: ["mum"]),
    firstDevices: ["bob-phone"], firstSeconds: 12, changedAt: time)

  static let requests: Named<AppRequest> = [
    "user": .user,
    "calls": .calls(shard: 5),
    "call": .call(GoldenValues.call),
    "end": .end(GoldenValues.call),
    "remove": .remove("bob-phone"),
    "place": .place(placing),
    "placeAtDevice": .place(placingAtDevice),
    "live": .live(LiveCallsQuery(shard: 5, before: call.place, limit: 101)),
    "group": .group,
    "setGroup": .setGroup(group),
    "removeGroup": .setGroup(nil),
    "name": .name,
    "setName": .setName("Bob Stone"),
    "removeName": .setName(""),
  ]

  static let placing = AppPlacing(
    PlaceRequest(
      call: GoldenValues.call, ringTimeoutSeconds: 25,
      headers: [CustomHeader(name: "reason", value: "callback")], video: true,
      callerName: "Dr. Cy", pushData: "ticket 7"), caller: "cy")

  static let placingAtDevice = AppPlacing(
    PlaceRequest(call: GoldenValues.call), caller: "cy", device: "bob-phone")

  static let group = CallGroup(users: ["cy", "dee"], order: .longestIdle, turnSeconds: 20)

  static func memberVisit(_ call: CallID) -> VisitRequest {
    var request = VisitRequest(call: call, callee: "desk", caller: "ann", busyWhileInCall: true)
    request.isMember = true
    return request
  }

  static let groupAnswer: VisitAnswer = {
    var answer = VisitAnswer(diverted: .group, to: ["cy", "dee"])
    answer.ringSlot = .seconds(20)
    return answer
  }()

  static let call: AppCall = {
    var state = GoldenValues.state
    state.missed = true
    return AppCall(
      state: state, caller: GoldenValues.caller, placedAt: time, answeredBy: GoldenValues.phone,
      endedByApp: true)
  }()

  static let user = AppUser(
    user: "bob",
    devices: [
      AppUser.Device(
        device: "bob-phone", name: "Bob's phone", client: "callmesh-swift/1.0", attachedAt: time,
        registeredAt: time, seenAt: time, voipPush: .apns, alertPush: .fcm),
      AppUser.Device(device: "bob-tablet", attachedAt: time),
    ], calls: [call])

  static let named: AppUser = {
    var named = user
    named.name = "Bob Stone"
    return named
  }()

  /// Versions of before read the end, and not who caused it.
  static let ended = JournalEntry.Change.ended(
    EndedFacts(reason: .hungUp, by: nil, at: GoldenValues.later, missed: false, byApp: true))
}
