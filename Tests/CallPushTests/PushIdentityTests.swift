import CallCore
import CallPush
import Testing

@Suite struct PushIdentityTests {
  @Test func theIdIsAUUIDThatFollowsFromThePush() {
    let job = GatewayMachineTests.job()
    let id = PushIdentity(job).uuid
    #expect(id == PushIdentity(job).uuid)
    let characters = Array(id)
    #expect(characters.count == 36)
    for index in [8, 13, 18, 23] { #expect(characters[index] == "-") }
    #expect(characters[14] == "8")
    #expect("89ab".contains(characters[19]))
    #expect(id == id.lowercased())
    #expect(!id.contains(job.token.token))
    // New times do not change the id; another push has another id.
    var later = job
    later.decidedAt = GatewayMachineTests.at(9)
    later.deadline = GatewayMachineTests.at(99)
    #expect(PushIdentity(later).uuid == id)
    var again = job
    again.round = 1
    let others = [
      again, GatewayMachineTests.job(2), GatewayMachineTests.job(device: "tablet"),
      GatewayMachineTests.job(purpose: .cancel),
    ]
    #expect(Set(others.map { PushIdentity($0).uuid } + [id]).count == 5)
  }
}
