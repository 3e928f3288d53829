internal import CallCore

/// Decides by chance what rules a user has.
struct RuleScript {
  /// How many users the world has.
  let people: Int
  /// Users in a row each have all calls sent on to the next one, and the last one to the first: so a call goes round in
  /// a circle, or more often than it may.
  let circle: ClosedRange<Int>
  var random: SimRandom

  init(people: Int, _ random: SimRandom) {
    self.people = people
    self.random = random
    let first = self.random.number(1...2)
    let last = min(people - 1, first + (self.random.pick([1, 2, 6, 8]) ?? 1))
    circle = first...last
  }

  /// - Parameter isLate: some time has passed, and the user decides otherwise.
  mutating func rules(of user: Int, isLate: Bool) -> UserRules {
    if circle.contains(user), !isLate || random.chance(0.7) {
      let next = user == circle.upperBound ? circle.lowerBound : user + 1
      return UserRules(
        always: UserRules.Forward(users: [SimOptions.user(next)]),
        doNotDisturb: random.chance(0.2) ? UserRules.DoNotDisturb() : nil)
    }
    // No device of this user can be reached.
    if user == 0 { return UserRules(onUnreachable: others(than: user)) }
    var rules = UserRules(noAnswerSeconds: 5, firstSeconds: UserRules.firstRange.lowerBound)
    switch random.below(10) {
    case 0, 1:
      rules.always = others(than: user)
      if random.chance(0.3) { rules.doNotDisturb = UserRules.DoNotDisturb() }
    case 2, 3:
      rules.doNotDisturb = UserRules.DoNotDisturb(except: random.chance(0.5) ? users(5) : [])
      if random.chance(0.4) { rules.onBusy = others(than: user) }
    case 4, 5:
      rules.firstDevices = [random.chance(0.5) ? "d0" : "d1"]
      if random.chance(0.3) { rules.onNoAnswer = others(than: user) }
    case 6 where isLate: break
    default:
      if random.chance(0.6) { rules.onNoAnswer = others(than: user) }
      if random.chance(0.6) { rules.onUnreachable = others(than: user) }
      rules.onBusy = others(than: user)
    }
    return rules
  }

  private mutating func others(than user: Int) -> UserRules.Forward {
    var names = users(random.pick([1, 1, 2, 3]) ?? 1)
    names.removeAll { $0.hasBytes(of: SimOptions.user(user)) }
    if names.isEmpty || random.chance(0.15) { names += [random.pick(SimGroups.names) ?? ""] }
    return UserRules.Forward(users: names)
  }

  private mutating func users(_ count: Int) -> [String] {
    Array((0..<people).shuffled(using: &random).prefix(count)).map { SimOptions.user($0) }
  }
}
