import CallCore
import Testing

/// The hash is a contract between versions and languages: these vectors never change.
@Suite struct ShardHashTests {
  @Test(arguments: [
    ("demo", "alice", 0x5bbc_b811_204a_f755 as UInt64, 21),
    ("demo", "bob", 0xf982_050e_abb6_9fb1, 49),
    ("", "", 0x25fc_6dd3_6ce0_4b20, 32), ("a", "bc", 0x82a1_4482_6e72_d59e, 30),
    ("ab", "c", 0x9291_f5e7_171d_c35a, 26), ("demo", "zoë", 0x86bd_8416_657b_883f, 63),
  ])
  func vectors(app: String, user: String, hash: UInt64, shard: Int) {
    let key = UserKey(app: app, user: user)
    #expect(ShardHash.hash(key) == hash)
    #expect(ShardHash.shard(of: key, count: 64) == shard)
  }

  @Test func shortSimilarNamesSpreadEvenly() {
    var counts = [Int](repeating: 0, count: 64)
    for number in 0..<64_000 {
      counts[ShardHash.shard(of: UserKey(app: "demo", user: "user\(number)"), count: 64)] += 1
    }
    #expect(counts.min()! > 850)
    #expect(counts.max()! < 1150)
  }

  @Test func aNodeThatJoinsTakesOnlyWhatItOwns() {
    func owner(_ shard: Int, _ nodes: [String]) -> String {
      nodes.max {
        ShardHash.weight(node: $0, shard: shard) < ShardHash.weight(node: $1, shard: shard)
      }!
    }
    let three = ["c1", "c2", "c3"]
    var moved = 0
    for shard in 0..<4096 {
      let before = owner(shard, three)
      let after = owner(shard, three + ["c4"])
      if before != after {
        moved += 1
        #expect(after == "c4")
      }
    }
    #expect((900...1150).contains(moved))
  }
}
