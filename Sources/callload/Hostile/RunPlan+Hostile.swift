extension RunPlan {
  /// Nothing where nobody is hostile.
  static func hostilePlan(_ command: LoadCommand) throws -> HostilePlan? {
    guard (1...2).contains(command.apps) else {
      throw SetupError("--apps \(command.apps): give 1, or 2 of which the second is hostile")
    }
    let words = command.hostile + (command.apps == 2 ? [Attack.appFlood.rawValue] : [])
    guard !words.isEmpty else { return nil }
    let plan = try HostilePlan(
      words, attackSeconds: command.duration.seconds, recoverySeconds: command.recovery.seconds)
    let others: [(option: String, isGiven: Bool)] = [
      ("--chaos", !command.chaos.isEmpty), ("--find-max", command.findMax),
      ("--sleeping", command.sleeping != nil), ("--check-growth", command.checkGrowth),
    ]
    for other in others where other.isGiven {
      throw SetupError(
        "\(other.option): does not go with --hostile or --apps 2; leave one of them out")
    }
    guard command.duration.seconds <= 600, command.recovery.seconds <= 600 else {
      throw SetupError(
        "--duration \(command.duration), --recovery \(command.recovery): attacks are bounded; "
          + "give at most 10m")
    }
    return plan
  }
}
