import CallCore
import CallWire

/// Rules of users, and what an app's server asks and is answered.
extension Generator {
  mutating func userRules() -> UserRules {
    var rules = UserRules(
      always: forward(), onBusy: forward(), onNoAnswer: forward(),
      noAnswerSeconds: UInt32.random(in: UserRules.noAnswerRange, using: &self),
      onUnreachable: forward(), firstDevices: list(3) { $0.device() },
      firstSeconds: UInt32.random(in: UserRules.firstRange, using: &self), changedAt: milliseconds()
    )
    if chance(50) {
      rules.doNotDisturb = UserRules.DoNotDisturb(
        until: maybe { $0.milliseconds() }, except: list(3) { $0.user() })
    }
    return rules
  }

  private mutating func forward() -> UserRules.Forward? {
    chance(50) ? UserRules.Forward(users: [user()] + list(3) { $0.user() }) : nil
  }

  mutating func appRequest() -> AppRequest {
    switch Int.random(in: 0..<11, using: &self) {
    case 7: .name
    case 8: .setName(text(10))
    case 0: .user
    case 9:
      .place(AppPlacing(placeRequest(), caller: user(), device: maybe { $0.device() }))
    case 10:
      .live(
        LiveCallsQuery(
          shard: UInt32(truncatingIfNeeded: next()), before: maybe { $0.callPlace() },
          limit: UInt32(truncatingIfNeeded: next())))
    case 5: .group
    case 6: .setGroup(maybe { $0.callGroup() })
    case 1: .calls(shard: UInt32(truncatingIfNeeded: next()))
    case 2: .call(call())
    case 3: .end(call())
    default: .remove(device())
    }
  }

  mutating func appReply() -> AppReply {
    switch Int.random(in: 0..<5, using: &self) {
    case 3: .group(callGroup())
    case 4: .name(text(10))
    case 0: .user(appUser())
    case 1:
      .calls(AppCalls(list(3) { $0.appCall() }, next: maybe { $0.callPlace() }))
    default: .call(appCall())
    }
  }

  private mutating func callPlace() -> AppCallPlace {
    AppCallPlace(placedAtMs: milliseconds().milliseconds, call: call(), callee: user())
  }

  private mutating func appUser() -> AppUser {
    var found = AppUser(
      user: user(), devices: list(3) { $0.appDevice() }, calls: list(3) { $0.appCall() })
    if chance(50) { found.name = text(10) }
    return found
  }

  mutating func callGroup() -> CallGroup {
    CallGroup(
      users: [user()] + list(3) { $0.user() }, order: one(of: CallGroup.Order.self),
      turnSeconds: UInt32.random(in: CallGroup.turnRange, using: &self))
  }

  private mutating func appDevice() -> AppUser.Device {
    AppUser.Device(
      device: device(), name: text(10), client: text(10), attachedAt: maybe { $0.milliseconds() },
      registeredAt: maybe { $0.milliseconds() }, seenAt: maybe { $0.milliseconds() },
      voipPush: one(of: PushProvider.self), alertPush: one(of: PushProvider.self))
  }

  private mutating func appCall() -> AppCall {
    AppCall(
      state: state(), caller: party(), placedAt: milliseconds(), answeredBy: maybe { $0.party() },
      endedByApp: chance(50))
  }
}
