internal import CallBus
internal import CallCore
internal import CallWire

/// The groups of the simulated app, one of each order: users who are no persons. They are in the store from the start,
/// and the app's hook sends calls to them.
enum SimGroups {
  static let names = CallGroup.Order.allCases.map { "desk \($0.name)" }

  private static func group(_ order: CallGroup.Order) -> CallGroup {
    let first = 4 * Int(order.rawValue)
    return CallGroup(
      users: (first..<first + 5).map { SimOptions.user($0) }, order: order,
      turnSeconds: CallGroup.turnRange.lowerBound)
  }

  static func put(into store: inout SimStore, shardCount: Int) {
    for (name, order) in zip(names, CallGroup.Order.allCases) {
      let key = UserKey(app: SimOptions.app, user: name)
      var rules = UserRules()
      rules.group = group(order)
      _ = store.put(
        SimOptions.registrationBucket,
        Subjects.rulesKey(
          shard: ShardHash.shard(of: key, count: shardCount), app: key.app, user: key.user),
        ClusterCodec.encode(StoredRules(user: key, rules: rules)), expecting: nil)
    }
  }
}
