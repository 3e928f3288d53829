import { breaking } from "./breaking.js";
import { calledRaces } from "./called-races.js";
import { called } from "./called.js";
import { callingRaces } from "./calling-races.js";
import { calling } from "./calling.js";
import { changingHands } from "./changing-hands.js";
import { commands } from "./commands.js";
import { connection } from "./connection.js";
import { crossing } from "./crossing.js";
import { deliveries } from "./deliveries.js";
import { later } from "./later.js";
import { replies } from "./replies.js";
import { sessions } from "./sessions.js";
import { transfers } from "./transfers.js";
import { userData } from "./user-data.js";
import { waking } from "./waking.js";

/** All situations. A number never changes its meaning; one that goes leaves a gap. */
export const situations = [
  [connection, breaking, sessions],
  [called, calledRaces, waking],
  [calling, callingRaces, crossing],
  [deliveries, commands, replies],
  [changingHands, transfers],
  [userData, later],
].flat(2);
